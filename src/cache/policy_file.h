// SPDX-License-Identifier: Apache-2.0
// PolicyFile: how the pools of a cache directory are kept, in the directory itself, so that a start
// knows what is pinned, and what has a quota, before the mounts are back. Thread-safe.
// Format: docs/formats/cache.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "cache/cache_directory.h"
#include "cache/capacity.h"
#include "model/pool.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace leat {

using PoolPolicies = std::map<PoolId, PoolPolicy>;

// Names are cut to kPolicyNameBytesMax; at most kPolicyPoolsMax pools are kept.
inline constexpr size_t kPolicyNameBytesMax = 1024, kPolicyPoolsMax = 4096;
std::string encode_policies(const PoolPolicies& policies);
std::optional<PoolPolicies> decode_policies(std::span<const std::byte> bytes);

class PolicyFile : public std::enable_shared_from_this<PolicyFile> {
 public:
  explicit PolicyFile(std::shared_ptr<CacheDirectory> directory);

  // Sets the policies that are in the file. One that is damaged is set aside. Blocks; spawns
  // nothing.
  void load();

  // A pool is somebody's in this run, and its policy is another than before, or not. A changed one
  // is written soon, in the background, several together. What could not be written is tried again
  // with the next change and at the end.
  void set(PoolId id, bool changed);
  // Writes what is not written; afterwards nothing is any more.
  Task<> close();

 private:
  static Task<> save_in_background(std::shared_ptr<PolicyFile> self);
  PoolPolicies policies() const;
  Task<bool> save();
  Task<Result<>> write(std::string content);

  const std::shared_ptr<CacheDirectory> directory_;
  Semaphore turn_{1};    // of who writes
  Charge charge_;        // the file and its successor; under the turn
  std::string written_;  // what the file says; under the turn
  bool told_ = false;    // that it cannot be written; under the turn

  mutable std::mutex mutex_;         // leaf
  std::set<PoolId> in_use_;          // set in this run
  uint64_t wanted_ = 0, saved_ = 0;  // changes, and how many of them are written
  bool saving_ = false, closing_ = false;
};

}  // namespace leat
