// SPDX-License-Identifier: Apache-2.0
// PolicyFile: stores the pool policies in the cache directory, so that a start has pins and quotas
// before the mounts are back. Thread-safe. Format: docs/formats/cache.md.
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

// Names are cut to kPolicyNameBytesMax; at most kPolicyPoolsMax pools are stored.
inline constexpr size_t kPolicyNameBytesMax = 1024, kPolicyPoolsMax = 4096;
std::string encode_policies(const PoolPolicies& policies);
std::optional<PoolPolicies> decode_policies(std::span<const std::byte> bytes);

class PolicyFile : public std::enable_shared_from_this<PolicyFile> {
 public:
  explicit PolicyFile(std::shared_ptr<CacheDirectory> directory);

  // Applies the policies in the file. A damaged file is set aside. Blocks; spawns nothing.
  void load();

  // Marks a pool as in use in this run; `changed`: its policy changed. Changes are written soon, in
  // the background, several together. A failed write is retried with the next change and in
  // close().
  void set(PoolId id, bool changed);
  // Writes pending changes; later ones are not written.
  Task<> close();

 private:
  static Task<> save_in_background(std::shared_ptr<PolicyFile> self);
  PoolPolicies policies() const;
  Task<bool> save();
  Task<Result<>> write(std::string content);

  const std::shared_ptr<CacheDirectory> directory_;
  Semaphore write_semaphore_{1};  // held by the writer
  Charge charge_;                 // the file and its new version; needs write_semaphore_
  std::string written_;           // content of the file; needs write_semaphore_
  bool failure_logged_ = false;   // the failure was logged; needs write_semaphore_

  mutable std::mutex mutex_;                  // leaf
  std::set<PoolId> in_use_;                   // set in this run
  uint64_t changes_ = 0, saved_changes_ = 0;  // changes, and how many of them are written
  bool saving_ = false, closing_ = false;
};

}  // namespace leat
