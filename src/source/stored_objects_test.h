// SPDX-License-Identifier: Apache-2.0
// StoredObjects: the objects of BadStore in memory with all their versions, so that a test can
// check whether received bytes ever existed. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"

namespace leat::testing {

// Returns bytes that repeat neither within the object nor in objects of another `seed`.
inline std::string bytes_of(uint64_t seed, size_t size) {
  std::string text(size, '\0');
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15 + at;  // splitmix64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    word ^= word >> 31;
    for (size_t i = at; i < std::min(at + 8, size); ++i, word >>= 8) {
      text[i] = static_cast<char>(word);
    }
  }
  return text;
}

struct StoredVersion {
  std::shared_ptr<const std::string> content;
  std::string etag;  // with its quotes
};

class StoredObjects {
 public:
  // Makes a version of `content` the current one.
  void put(const std::string& key, std::string content) {
    std::lock_guard lock(mutex_);
    const std::string etag = fmt::format("\"{:08x}-{}\"", ++etags_, content.size());
    versions_[key].push_back({std::make_shared<const std::string>(std::move(content)), etag});
  }

  // Number of versions so far; the last one is current.
  size_t versions(const std::string& key) const {
    std::lock_guard lock(mutex_);
    auto found = versions_.find(key);
    return found == versions_.end() ? 0 : found->second.size();
  }
  // From 0.
  StoredVersion version(const std::string& key, size_t number) const {
    std::lock_guard lock(mutex_);
    return versions_.at(key).at(number);
  }
  // All objects with their current version.
  std::map<std::string, StoredVersion> current() const {
    std::lock_guard lock(mutex_);
    std::map<std::string, StoredVersion> all;
    for (const auto& [key, versions] : versions_) all.emplace(key, versions.back());
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<StoredVersion>> versions_;
  uint64_t etags_ = 0;
};

}  // namespace leat::testing
