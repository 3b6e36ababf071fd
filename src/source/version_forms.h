// SPDX-License-Identifier: Apache-2.0
// VersionForms: maps versions that a store writes in one form in listings and in another in
// responses to HEAD. Such ETags differ in case, are weak, or are missing in one of the two. Layers
// above see the listing's form; the store gets the HEAD's form. Thread-safe.
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
  // Whether two simultaneous descriptions of one key are of one version: size and time agree. If
  // one has no time, the ETags have to be equal except for their form.
  static bool agree(const SourceObject& listed, const SourceObject& found);

  // Whether any object of this store had two forms.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Remembers both forms of a version, for the last kObjectsMax objects. Logs the first of a store.
  void remember(std::string_view store, const std::string& key, const Version& listed,
                const Version& found);
  // Returns the version to demand from the store in order to get `listed`.
  Version demanded(const std::string& key, const Version& listed) const;
  // Returns the form in the listing, if it is known.
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
  std::deque<std::string> order_;  // keys of forms_, oldest first
};

}  // namespace leat
