// SPDX-License-Identifier: Apache-2.0
// VersionForms: objects whose version a store writes in one form in listings and in another in
// answers to HEAD: ETags in other case, weak, or missing in one of them. Everything above sees the
// form of the listing, and the store is sent the form of the HEAD. Thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "model/version.h"
#include "source/source.h"

namespace leat {

class VersionForms {
 public:
  // Whether two descriptions of one key, which were made at the same time, are of one version: size
  // and time agree. Where one of them has no time, the ETags have to be equal but for their form.
  static bool agree(const SourceObject& listed, const SourceObject& found);

  // Whether any object of this store has been seen with two forms.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Remembers both forms of a version, the last kObjectsMax of them. Logs the first of a store.
  void remember(std::string_view store, const std::string& key, const Version& listed,
                const Version& found);
  // What to demand of the store in order to get `listed`.
  Version demanded(const std::string& key, const Version& listed) const;
  // The form in which the listing has it, if that is known.
  std::optional<Version> listed(const std::string& key, const Version& found) const;

 private:
  struct Forms {
    Version listed, found;
  };
  static constexpr size_t kObjectsMax = 16'384;  // about 4 MB

  std::optional<Forms> forms_of(const std::string& key) const;

  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;  // leaf
  std::map<std::string, Forms> forms_;
  std::deque<std::string> order_;  // of forms_, oldest first
};

}  // namespace leat
