// SPDX-License-Identifier: Apache-2.0
#include "cache/pool.h"

namespace leat {

PoolPolicy Pool::policy() const {
  std::lock_guard lock(mutex_);
  return policy_;
}

void Pool::set_policy(const PoolPolicy& policy) {
  capacity->configure(policy.quota_bytes == 0 ? UINT64_MAX : policy.quota_bytes);
  std::lock_guard lock(mutex_);
  policy_ = policy;
}

uint64_t Pool::note_pass(const FileId& object) {
  const uint64_t pass = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  meter.note(object, pass);
  return pass;
}

bool Pool::stale(uint64_t last_pass) const {
  const uint64_t present = now();
  return present > last_pass && present - last_pass > meter.stale_after();
}

Pool& PoolTable::at(PoolId id) {
  Pool* recent = recent_.load(std::memory_order_acquire);
  if (recent != nullptr && recent->id == id) return *recent;
  const auto number = static_cast<uint64_t>(id);
  {
    std::shared_lock lock(mutex_);
    auto found = pools_.find(number);
    if (found != pools_.end()) {
      recent_.store(found->second.get(), std::memory_order_release);
      return *found->second;
    }
  }
  std::unique_lock lock(mutex_);
  PoolPtr& pool = pools_[number];
  if (pool == nullptr) pool = std::make_shared<Pool>(id, capacity_, passes_);
  return *pool;
}

std::vector<PoolPtr> PoolTable::all() const {
  std::shared_lock lock(mutex_);
  std::vector<PoolPtr> pools;
  for (const auto& [number, pool] : pools_) pools.push_back(pool);
  return pools;
}

}  // namespace leat
