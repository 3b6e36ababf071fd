// SPDX-License-Identifier: Apache-2.0
#include "cache/spread/spread_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/hash.h"
#include "cache/spread/watched_disk.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);

// Weighted rendezvous: each directory draws a number for each object, the smallest has it. With
// exponentially distributed numbers of rate w the chance is w over the sum of all (Schindelhauer
// and Schomaker, "Weighted distributed hash tables", 2005).
double draw(const FileId& id, const DirectoryStore& store) {
  const uint64_t bits = hash_mix(id.hash64() ^ store.uuid().hash64());
  const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
  return -std::log(uniform) / static_cast<double>(store.options().capacity_bytes);
}

// Whether it is the operator who has to do something, and not the disk.
bool used_wrongly(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kBusy:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
    case StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

Result<> check_names(const std::vector<PageStoreOptions>& directories) {
  if (directories.empty() || directories.size() > kCacheDirectoriesMax) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} cache directories are named; 1 to {} can be used",
                             directories.size(), kCacheDirectoriesMax));
  }
  std::set<std::string> seen;
  for (const PageStoreOptions& options : directories) {
    if (seen.insert(options.directory).second) continue;
    return error(StatusCode::kInvalidArgument,
                 fmt::format("the cache directory {} is named twice", options.directory));
  }
  return {};
}

}  // namespace

std::string_view to_string(DirectoryState state) {
  switch (state) {
    case DirectoryState::kNormal:
      return "normal";
    case DirectoryState::kUnstable:
      return "unstable";
    case DirectoryState::kDown:
      break;
  }
  return "down";
}

Task<Result<std::unique_ptr<HostCache>>> HostCache::open(Context context,
                                                         std::vector<PageStoreOptions> directories,
                                                         Executor& executor, DiskMaker make_disk) {
  LEAT_CO_CHECK_OK(check_names(directories));
  auto cache = std::make_unique<SpreadStore>(std::move(directories), executor, make_disk);
  LEAT_CO_CHECK_OK(co_await cache->start(std::move(context)));
  co_return std::unique_ptr<HostCache>(std::move(cache));
}

SpreadStore::Member::Member(PageStoreOptions of, const std::shared_ptr<Disk>& plain,
                            HealthTimes times)
    : options(std::move(of)),
      health(std::make_shared<DirectoryHealth>(Clock::now(), times)),
      disk(make_watched_disk(plain, health)),
      state_gauge(
          "leat_cache_directory_state", "0: normal, 1: unstable, 2: down.",
          [held = health] { return static_cast<double>(held->state()); },
          fmt::format(R"(directory="{}")", options.directory)) {}

SpreadStore::SpreadStore(std::vector<PageStoreOptions> directories, Executor& executor,
                         const DiskMaker& make_disk, HealthTimes times)
    : executor_(executor),
      look_every_(std::min<Clock::duration>(kLookEvery, times.probe_unstable)) {
  for (PageStoreOptions& options : directories) {
    members_.push_back(std::make_unique<Member>(std::move(options), make_disk(), times));
  }
}

Task<Result<>> SpreadStore::start(Context context) {
  std::optional<Status> failure;
  size_t opened = 0;
  for (const MemberPtr& member : members_) {
    Result<> done = co_await open(context, *member);
    if (done) {
      ++opened;
      continue;
    }
    if (!failure) failure = done.error();
    const bool fatal = used_wrongly(done.error()) || !context.check("opening the cache");
    if (fatal) {
      co_await close();
      co_return done;
    }
    member->health->not_opened(Clock::now(), done.error());
  }
  if (opened == 0) co_return Error(*failure);
  for (const MemberPtr& member : members_) {
    if (member->health->state() != DirectoryState::kDown) continue;
    log::error("cache {}: down, the others go on without it: {}", member->options.directory,
               member->health->why());
  }
  background_->spawn(executor_, watch());
  co_return Result<>();
}

Task<Result<>> SpreadStore::open(Context context, Member& member) {
  Result<std::unique_ptr<DirectoryStore>> store =
      co_await DirectoryStore::open(context, member.options, executor_, member.disk);
  if (!store) co_return Error(store.error());
  member.stores.push_back(*std::move(store));
  member.store = member.stores.back().get();
  apply_policies();
  co_return Result<>();
}

Task<> SpreadStore::close() {
  stopping_.request_stop();
  co_await background_->idle();
  for (const MemberPtr& member : members_) {
    DirectoryStore* store = member->store;
    if (store == nullptr) continue;
    if (member->health->hangs(Clock::now())) {
      log::warning("cache {}: not closed in order: its disk does not answer",
                   member->options.directory);
      store->stop();
      continue;
    }
    if (member->health->was_unwell()) store->distrust();
    co_await store->close();
  }
}

SpreadStore::Order SpreadStore::in_order(const FileId& id) const {
  Order order;
  std::array<double, kCacheDirectoriesMax> drawn;
  for (const MemberPtr& member : members_) {
    const DirectoryStore* store = member->usable();
    if (store == nullptr) continue;
    // There are few: each is put where it belongs among those before.
    const double number = draw(id, *store);
    size_t at = order.count++;
    for (; at > 0 && drawn[at - 1] > number; --at) {
      drawn[at] = drawn[at - 1];
      order.members[at] = order.members[at - 1];
    }
    drawn[at] = number;
    order.members[at] = member.get();
  }
  return order;
}

DirectoryStore* SpreadStore::holder(const FileId& id) const {
  if (members_.size() == 1) return members_[0]->usable();
  for (Member* member : in_order(id)) {
    DirectoryStore* store = member->usable();
    if (store != nullptr && store->contains(id)) return store;
  }
  return nullptr;
}

DirectoryStore* SpreadStore::taker(const FileId& id) const {
  for (Member* member : in_order(id)) {
    if (member->health->state() != DirectoryState::kNormal) continue;
    if (DirectoryStore* store = member->store) return store;
  }
  return nullptr;
}

std::vector<DirectoryStore*> SpreadStore::usable() const {
  std::vector<DirectoryStore*> stores;
  for (const MemberPtr& member : members_) {
    if (DirectoryStore* store = member->usable()) stores.push_back(store);
  }
  return stores;
}

std::optional<Bytes> SpreadStore::try_read(const FileRef& ref, ByteRange range) {
  DirectoryStore* store = holder(ref.id);
  return store != nullptr ? store->try_read(ref, range) : std::nullopt;
}

Task<Result<Bytes>> SpreadStore::read(Context context, FileRefPtr ref, ByteRange range) {
  DirectoryStore* store = holder(ref->id);
  if (store == nullptr && !range.clamp(ref->size).empty()) co_return not_here(ref->key);
  if (store == nullptr) co_return Bytes();
  Result<Bytes> bytes = co_await store->read(std::move(context), ref, range);
  co_return bytes;
}

std::vector<ByteRange> SpreadStore::missing(const FileRef& ref, ByteRange range) {
  if (DirectoryStore* store = holder(ref.id)) return store->missing(ref, range);
  range = range.clamp(ref.size);
  if (range.empty()) return {};
  if (packed(ref)) return {ByteRange{0, ref.size}};
  return {range.widen(kBlockBytes, ref.size)};
}

Task<Result<>> SpreadStore::write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) {
  DirectoryStore* store = members_.size() > 1 ? holder(ref->id) : nullptr;
  if (store == nullptr) store = taker(ref->id);
  if (store == nullptr) {
    co_return error(
        StatusCode::kNoSpace,
        fmt::format("{} is not kept: no cache directory works; 'leat status' says why", ref->key));
  }
  Result<> kept = co_await store->write(std::move(context), ref, offset, std::move(data));
  co_return kept;
}

std::shared_ptr<BackingFile> SpreadStore::backing(const FileRef& ref) {
  DirectoryStore* store = holder(ref.id);
  return store != nullptr ? store->backing(ref) : nullptr;
}

// The border is the same in all of them.
bool SpreadStore::packed(const FileRef& ref) const {
  if (DirectoryStore* store = holder(ref.id)) return store->packed(ref);
  return ref.size > 0 && ref.size < members_[0]->options.packed_bytes_max;
}

uint64_t SpreadStore::cached_bytes(const FileRef& ref) {
  DirectoryStore* store = holder(ref.id);
  return store != nullptr ? store->cached_bytes(ref) : 0;
}

// Also where it is down: it may come back.
uint64_t SpreadStore::drop(const FileId& id) {
  uint64_t bytes = 0;
  for (const MemberPtr& member : members_) {
    if (DirectoryStore* store = member->store) bytes += store->drop(id);
  }
  return bytes;
}

Task<Result<>> SpreadStore::flush(Context context) {
  Result<> first_failure;
  for (DirectoryStore* store : usable()) {
    Result<> flushed = co_await store->flush(context);
    if (!flushed && first_failure) first_failure = flushed;
  }
  co_return first_failure;
}

void SpreadStore::set_pool_policy(PoolId id, const PoolPolicy& policy) {
  {
    std::lock_guard lock(mutex_);
    policies_[id] = policy;
  }
  apply_policies();
}

// A quota is shared out as the objects are: by capacity.
void SpreadStore::apply_policies() {
  std::lock_guard one_at_a_time(applying_mutex_);
  std::map<PoolId, PoolPolicy> policies;
  {
    std::lock_guard lock(mutex_);
    policies = policies_;
  }
  double whole = 0;
  for (const MemberPtr& member : members_) {
    DirectoryStore* store = member->store;
    if (store != nullptr) whole += static_cast<double>(store->options().capacity_bytes);
  }
  for (const MemberPtr& member : members_) {
    DirectoryStore* store = member->store;
    if (store == nullptr) continue;
    const double share = static_cast<double>(store->options().capacity_bytes) / whole;
    for (auto [id, policy] : policies) {
      policy.quota_bytes =
          static_cast<uint64_t>(std::ceil(static_cast<double>(policy.quota_bytes) * share));
      store->set_pool_policy(id, policy);
    }
  }
}

PageStoreStats SpreadStore::stats() const {
  PageStoreStats sum{};
  for (const MemberPtr& member : members_) {
    const DirectoryStore* store = member->store;
    if (store == nullptr) continue;
    const PageStoreStats stats = store->stats();
    sum.evicted_bytes += stats.evicted_bytes;
    sum.corrupt_blocks += stats.corrupt_blocks;
    sum.refused_bytes += stats.refused_bytes;
    if (member->usable() == nullptr) continue;
    sum.capacity_bytes += stats.capacity_bytes;
    sum.used_bytes += stats.used_bytes;
    sum.held_bytes += stats.held_bytes;
    sum.files += stats.files;
    sum.packed_objects += stats.packed_objects;
    sum.segments += stats.segments;
  }
  return sum;
}

std::vector<PoolStats> SpreadStore::pools() const {
  std::map<PoolId, PoolStats> pools;
  for (const DirectoryStore* store : usable()) {
    for (const PoolStats& pool : store->pools()) {
      auto [at, first] = pools.try_emplace(pool.id, pool);
      if (first) continue;
      at->second.policy.quota_bytes += pool.policy.quota_bytes;  // each has its share
      at->second.used_bytes += pool.used_bytes;
      at->second.held_bytes += pool.held_bytes;
      at->second.even = at->second.even && pool.even;
    }
  }
  std::lock_guard lock(mutex_);
  std::vector<PoolStats> all;
  for (auto& [id, pool] : pools) {
    if (auto set = policies_.find(id); set != policies_.end()) pool.policy = set->second;
    all.push_back(std::move(pool));
  }
  return all;
}

std::vector<DirectoryStats> SpreadStore::directories() const {
  std::vector<DirectoryStats> all;
  for (const MemberPtr& member : members_) {
    const DirectoryStore* store = member->store;
    all.push_back({.path = member->options.directory,
                   .state = member->health->state(),
                   .why = member->health->why(),
                   .stats = store != nullptr ? store->stats() : PageStoreStats{}});
  }
  return all;
}

Task<> SpreadStore::watch() {
  const Context until_stop = Context::background().with_cancel(stopping_.get_token());
  std::vector<DirectoryState> told(members_.size(), DirectoryState::kNormal);
  for (size_t i = 0; i < members_.size(); ++i) told[i] = members_[i]->health->state();
  while (co_await sleep_for(until_stop, look_every_)) {
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& member = *members_[i];
      // One that hangs holds nobody else up.
      if (member.health->probe_is_due(Clock::now())) {
        executor_.spawn(probe(executor_, member.health, member.disk, member.options.directory));
      }
      if (member.health->opening_is_due()) co_await reopen(member);
      const DirectoryState is = member.health->state();
      if (is == std::exchange(told[i], is)) continue;
      if (is == DirectoryState::kNormal) {
        log::info("cache {}: normal again", member.options.directory);
      } else {
        log::error("cache {}: {}: {}", member.options.directory, to_string(is),
                   member.health->why());
      }
    }
  }
}

// Of nothing that goes with the store: it may hang for as long as the disk does.
Task<> SpreadStore::probe(Executor& executor, std::shared_ptr<DirectoryHealth> health,
                          std::shared_ptr<Disk> disk, std::string directory) {
  Result<> outcome =
      co_await executor.blocking([disk, directory] { return probe_directory(*disk, directory); });
  health->probed(Clock::now(), outcome);
}

// What was in memory may not be what is on the disk any more, and its descriptors may be those of a
// disk that is gone.
Task<> SpreadStore::reopen(Member& member) {
  if (DirectoryStore* before = member.store.exchange(nullptr)) {
    before->distrust();
    co_await before->close();
  }
  Result<> opened = co_await open(Context::background(), member);
  if (opened) {
    member.health->opened();
  } else {
    member.health->not_opened(Clock::now(), opened.error());
  }
}

}  // namespace leat
