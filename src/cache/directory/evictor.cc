// SPDX-License-Identifier: Apache-2.0
#include "cache/directory/evictor.h"

#include <algorithm>
#include <tuple>

#include "telemetry/log.h"

namespace leat {

namespace {

constexpr auto kBackoff = std::chrono::milliseconds(50);
// A cyclic pool takes from an equal one that has at least 1/10 of the limit more than itself.
constexpr uint64_t kUnfairShare = 10;

}  // namespace

void Evictor::start() {
  if (directory_->closing || running_.load(std::memory_order_relaxed)) return;
  if (Clock::now().time_since_epoch().count() < backoff_until_) return;
  if (running_.exchange(true)) return;
  directory_->spawn(run_in_background(shared_from_this()));
}

Task<> Evictor::run_in_background(std::shared_ptr<Evictor> self) {
  bool again = true;
  while (again) {
    bool progress = co_await self->run();
    if (!progress) self->backoff_until_ = (Clock::now() + kBackoff).time_since_epoch().count();
    self->running_ = false;
    // A start() between the end of the run and here had no effect, so check again.
    again =
        progress && self->directory_->capacity->under_pressure() && !self->running_.exchange(true);
  }
}

Task<bool> Evictor::run() {
  if (directory_->options.eviction_disabled) co_return false;
  co_await check_free_space();
  Capacity& capacity = *directory_->capacity;
  uint64_t freed = co_await evict_within_quotas();
  const Demands demands = take_demands();
  // Counted here, not read from the capacity: unlinked but held bytes are returned later.
  const uint64_t wanted = freed + capacity.excess();
  while (freed < wanted && !directory_->closing) {
    uint64_t bytes = co_await evict_one(demands);
    if (bytes == 0) break;
    freed += bytes;
  }
  capacity.eviction_ran();
  co_return freed > 0;
}

Evictor::Demands Evictor::take_demands() const {
  Demands demands{{}, directory_->capacity->exceeded()};
  for (const PoolPtr& pool : directory_->pools.all()) {
    if (!pool->needs_room.exchange(false)) continue;
    demands.pools.push_back(
        {pool->policy().priority, pool->meter.cyclic(), pool->capacity->used()});
  }
  return demands;
}

Task<uint64_t> Evictor::evict_within_quotas() {
  uint64_t freed = 0;
  for (const PoolPtr& pool : directory_->pools.all()) {
    const uint64_t excess = pool->capacity->excess();
    const bool stale_only = pool->meter.cyclic() && !pool->capacity->exceeded();
    for (uint64_t from_pool = 0; from_pool < excess && !directory_->closing;) {
      uint64_t bytes = co_await evict_from(pool, stale_only);
      if (bytes == 0 && !stale_only) bytes = co_await packed_->evict_open(pool);
      if (bytes == 0) break;
      from_pool += bytes;
      freed += bytes;
    }
    pool->capacity->eviction_ran();
  }
  co_return freed;
}

Task<uint64_t> Evictor::evict_now(PoolPtr of, uint64_t bytes) {
  uint64_t freed = 0;
  while (freed < bytes && !directory_->closing) {
    uint64_t step = 0;
    if (of != nullptr) {
      step = co_await evict_from(of, false);
      if (step == 0) step = co_await packed_->evict_open(of);
    } else {
      // A demand to which every pool gives.
      const Demands all{{{Priority::kHigh, false, 0}}, false};
      step = co_await evict_one(all);
    }
    if (step == 0) break;
    freed += step;
  }
  co_return freed;
}

// Returns the bytes freed, or 0 if nothing may be evicted.
Task<uint64_t> Evictor::evict_one(const Demands& demands) {
  const std::vector<Candidate> from = candidates(demands);
  for (bool stale : {true, false}) {
    for (const Candidate& candidate : from) {
      if (!may_evict(demands, candidate, stale)) continue;
      uint64_t bytes = co_await evict_from(candidate.pool, stale);
      if (bytes > 0) co_return bytes;
    }
  }
  for (const Candidate& candidate : from) {
    if (!may_evict(demands, candidate, false)) continue;
    uint64_t bytes = co_await packed_->evict_open(candidate.pool);
    if (bytes > 0) co_return bytes;
  }
  co_return 0;
}

// Returns the pools in the order in which they give bytes.
std::vector<Evictor::Candidate> Evictor::candidates(const Demands& demands) const {
  std::vector<Candidate> from;
  for (const PoolPtr& pool : directory_->pools.all()) {
    const PoolPolicy policy = pool->policy();
    if (policy.pinned && !demands.forced) continue;
    from.push_back({pool, policy.priority, policy.pinned, oldest_birth(*pool).value_or(INT64_MAX)});
  }
  std::ranges::sort(from, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.pinned, a.priority, a.birth) < std::tie(b.pinned, b.priority, b.birth);
  });
  return from;
}

bool Evictor::may_evict(const Demands& demands, const Candidate& from, bool stale) const {
  if (demands.forced) return true;
  const uint64_t used = from.pool->capacity->used();
  const uint64_t share = directory_->capacity->limit() / kUnfairShare;
  return std::ranges::any_of(demands.pools, [&](const Demand& demand) {
    if (from.priority != demand.priority) return from.priority < demand.priority;
    return stale || !demand.cyclic || used > demand.used + share;
  });
}

std::optional<int64_t> Evictor::oldest_birth(const Pool& pool) const {
  std::optional<int64_t> file = files_->oldest_birth(pool), segment = packed_->oldest_birth(pool);
  if (!file || !segment) return file ? file : segment;
  return std::min(*file, *segment);
}

Task<uint64_t> Evictor::evict_from(PoolPtr pool, bool stale) {
  auto file_birth = files_->oldest_birth(*pool);
  auto segment_birth = packed_->oldest_birth(*pool);
  bool files_first = file_birth && (!segment_birth || *file_birth <= *segment_birth);
  if (files_first) {
    uint64_t bytes = co_await files_->evict_one(pool, stale);
    if (bytes > 0) co_return bytes;
  }
  uint64_t bytes = co_await packed_->evict_one(pool, stale);
  if (bytes == 0 && !files_first) bytes = co_await files_->evict_one(pool, stale);
  co_return bytes;
}

Task<> Evictor::expire() {
  for (const PoolPtr& pool : directory_->pools.all()) {
    const int64_t ttl = pool->policy().ttl.count(), now = birth_now_ns();
    if (ttl == 0) continue;
    uint64_t bytes = co_await files_->expire(pool, now - ttl);
    bytes += co_await packed_->expire(pool, now - ttl, now - ttl / 8);
    if (bytes > 0) directory_->count_expired(bytes);
  }
}

Task<> Evictor::check_free_space() {
  CacheDirectory* directory = directory_.get();
  Result<DiskUsage> usage = co_await directory->blocking(
      [directory] { return directory->disk->usage(directory->options.directory); });
  if (!usage) {
    log::warning("cache {}: {}", directory->options.directory, usage.error().to_string());
    co_return;
  }
  directory->capacity->set_free_space(static_cast<int64_t>(usage->free_bytes) -
                                      static_cast<int64_t>(directory->options.free_bytes_min));
}

}  // namespace leat
