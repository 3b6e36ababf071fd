// SPDX-License-Identifier: Apache-2.0
#include "cache/spread/spread_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/hash.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kLookEvery = std::chrono::seconds(1);
constexpr Clock::duration kLookAtMost = std::chrono::milliseconds(1);

// After a longer pause of the whole process, no disk is judged until the next check.
constexpr auto kOwnPauseMax = std::chrono::seconds(3);

// Weighted rendezvous hashing: each directory draws a number for each object, and the smallest
// wins. With exponentially distributed numbers of rate w the chance is w over the sum of all.
// Source: Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005.
double draw(const FileId& id, const DirectoryStore& store) {
  const uint64_t bits = hash_mix(id.hash64() ^ store.uuid().hash64());
  const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
  return -std::log(uniform) / static_cast<double>(store.options().capacity_bytes);
}

// Returns true if the operator must act, since the disk is not the cause.
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

SpreadStore::SpreadStore(std::vector<PageStoreOptions> directories, Executor& executor,
                         const DiskMaker& make_disk, HealthTimes times)
    : executor_(executor),
      look_every_(std::clamp<Clock::duration>(times.probe_unstable, kLookAtMost, kLookEvery)) {
  for (PageStoreOptions& options : directories) {
    members_.push_back(
        std::make_unique<DirectoryMember>(std::move(options), make_disk, executor_, times));
  }
}

// Opens all at the same time: one that hangs is given up while the others are opened.
Task<Result<>> SpreadStore::start(Context context) {
  watching_->spawn(executor_, watch());
  std::vector<std::shared_ptr<SharedResult<bool>>> outcomes;
  for (const MemberPtr& member : members_) {
    outcomes.push_back(SharedResult<bool>::make());
    background_->spawn(executor_, open(context, *member, outcomes.back()));
  }
  std::optional<Status> failure;
  size_t opened = 0;
  bool fatal = false;
  for (const auto& outcome : outcomes) {
    Result<bool> done = co_await outcome->wait(Context::background(), "opening the cache");
    if (done) {
      ++opened;
      continue;
    }
    const bool worse = used_wrongly(done.error()) || !context.check("opening the cache");
    if (!failure || (worse && !fatal)) failure = done.error();
    fatal = fatal || worse;
  }
  if (opened > 0 && !fatal) co_return Result<>();
  co_await close();
  co_return Error(*failure);
}

Task<> SpreadStore::open(Context context, DirectoryMember& member,
                         std::shared_ptr<SharedResult<bool>> outcome) {
  Result<> opened = co_await member.open(std::move(context));
  if (opened) {
    apply_policies();
    outcome->set(true);
    co_return;
  }
  member.not_opened(opened.error());
  outcome->set(Error(opened.error()));
}

// The monitor runs until all are closed.
Task<> SpreadStore::close() {
  {
    std::lock_guard nobody_looks(looking_mutex_);
    for (const MemberPtr& member : members_) member->wind_down();
  }
  co_await background_->idle();
  for (const MemberPtr& member : members_) background_->spawn(executor_, close(*member));
  co_await background_->idle();
  stopping_.request_stop();
  co_await watching_->idle();
}

Task<> SpreadStore::close(DirectoryMember& member) {
  co_await member.close();
}

SpreadStore::Order SpreadStore::in_order(const FileId& id) const {
  Order order;
  std::array<double, kCacheDirectoriesMax> drawn;
  for (const MemberPtr& member : members_) {
    const DirectoryStore* store = member->usable();
    if (store == nullptr) continue;
    // Insertion sort: there are few members.
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

DirectoryMember* SpreadStore::holder(const FileId& id) const {
  if (members_.size() == 1) return members_[0]->usable() != nullptr ? members_[0].get() : nullptr;
  for (DirectoryMember* member : in_order(id)) {
    DirectoryStore* store = member->usable();
    if (store != nullptr && store->contains(id)) return member;
  }
  return nullptr;
}

DirectoryStore* SpreadStore::holding(const FileId& id) const {
  DirectoryMember* member = holder(id);
  return member != nullptr ? member->usable() : nullptr;
}

DirectoryMember* SpreadStore::taker(const FileId& id) const {
  for (DirectoryMember* member : in_order(id)) {
    if (member->health().state() != DirectoryState::kNormal) continue;
    if (member->store() != nullptr) return member;
  }
  return nullptr;
}

std::vector<DirectoryMember*> SpreadStore::usable() const {
  std::vector<DirectoryMember*> usable;
  for (const MemberPtr& member : members_) {
    if (member->usable() != nullptr) usable.push_back(member.get());
  }
  return usable;
}

std::optional<Bytes> SpreadStore::try_read(const FileRef& ref, ByteRange range) {
  DirectoryStore* store = holding(ref.id);
  return store != nullptr ? store->try_read(ref, range) : std::nullopt;
}

// If a member is given up meanwhile, reads from the next one that has the object; the first is not
// tried again.
Task<Result<Bytes>> SpreadStore::read(Context context, FileRefPtr ref, ByteRange range) {
  if (range.clamp(ref->size).empty()) co_return Bytes();
  for (size_t tries = 0; tries < members_.size(); ++tries) {
    DirectoryMember* member = holder(ref->id);
    if (member == nullptr) break;
    Result<Bytes> bytes = co_await member->read(context, ref, range);
    const bool given_up = !bytes && bytes.error().code() == StatusCode::kUnavailable;
    if (!given_up) co_return bytes;
  }
  co_return not_here(ref->key);
}

void SpreadStore::will_read(std::vector<FileRefPtr> refs, AheadListener told) {
  if (members_.size() == 1) {
    if (DirectoryStore* store = holding({})) store->will_read(std::move(refs), std::move(told));
    return;
  }
  std::map<DirectoryStore*, std::vector<FileRefPtr>> by_store;
  for (FileRefPtr& ref : refs) {
    if (DirectoryStore* store = holding(ref->id)) by_store[store].push_back(std::move(ref));
  }
  if (by_store.empty()) return;
  // The last store to respond reports the sum.
  struct Sum {
    std::atomic<uint64_t> cold = 0;
    std::atomic<size_t> left;
    AheadListener told;
  };
  auto sum = std::make_shared<Sum>();
  sum->left = by_store.size();
  sum->told = std::move(told);
  for (auto& [store, own] : by_store) {
    store->will_read(std::move(own), [sum](uint64_t cold) {
      sum->cold += cold;
      if (sum->left.fetch_sub(1) == 1 && sum->told) sum->told(sum->cold);
    });
  }
}

std::vector<ByteRange> SpreadStore::missing(const FileRef& ref, ByteRange range) {
  if (DirectoryStore* store = holding(ref.id)) return store->missing(ref, range);
  range = range.clamp(ref.size);
  if (range.empty()) return {};
  if (packed(ref)) return {ByteRange{0, ref.size}};
  return {range.widen(kBlockBytes, ref.size)};
}

Task<Result<>> SpreadStore::write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) {
  DirectoryMember* member = members_.size() > 1 ? holder(ref->id) : nullptr;
  if (member == nullptr) member = taker(ref->id);
  if (member == nullptr) {
    co_return error(
        StatusCode::kNoSpace,
        fmt::format("{} is not kept: no cache directory works; 'leat status' says why", ref->key));
  }
  Result<> kept = co_await member->write(std::move(context), ref, offset, std::move(data));
  co_return kept;
}

std::shared_ptr<BackingFile> SpreadStore::backing(const FileRef& ref) {
  DirectoryMember* member = holder(ref.id);
  return member != nullptr ? member->backing(ref) : nullptr;
}

std::shared_ptr<BackingFile> SpreadStore::hold(const FileRef& ref) {
  DirectoryMember* member = holder(ref.id);
  return member != nullptr ? member->hold(ref) : nullptr;
}

std::optional<StoredRange> SpreadStore::stored(const FileRef& ref, ByteRange range) {
  DirectoryMember* member = holder(ref.id);
  return member != nullptr ? member->stored(ref, range) : std::nullopt;
}

// All directories have the same packed_bytes_max.
bool SpreadStore::packed(const FileRef& ref) const {
  if (DirectoryStore* store = holding(ref.id)) return store->packed(ref);
  return ref.size > 0 && ref.size < members_[0]->options().packed_bytes_max;
}

uint64_t SpreadStore::cached_bytes(const FileRef& ref) {
  DirectoryStore* store = holding(ref.id);
  return store != nullptr ? store->cached_bytes(ref) : 0;
}

// Includes directories that are down: they may come back.
uint64_t SpreadStore::drop(const FileId& id) {
  uint64_t bytes = 0;
  for (const MemberPtr& member : members_) bytes += member->drop(id);
  return bytes;
}

Task<Result<>> SpreadStore::flush(Context context) {
  Result<> first_failure;
  for (DirectoryMember* member : usable()) {
    Result<> flushed = co_await member->flush(context);
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

// A quota is divided as the objects are: by capacity.
void SpreadStore::apply_policies() {
  std::lock_guard one_at_a_time(applying_mutex_);
  std::map<PoolId, PoolPolicy> policies;
  {
    std::lock_guard lock(mutex_);
    policies = policies_;
  }
  double whole = 0;
  for (const MemberPtr& member : members_) {
    DirectoryStore* store = member->store();
    if (store != nullptr) whole += static_cast<double>(store->options().capacity_bytes);
  }
  for (const MemberPtr& member : members_) {
    DirectoryStore* store = member->store();
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
    const DirectoryStore* store = member->store();
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
  for (const DirectoryMember* member : usable()) {
    const DirectoryStore* store = member->store();
    if (store == nullptr) continue;
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
    const DirectoryStore* store = member->store();
    all.push_back({.path = member->options().directory,
                   .state = member->health().state(),
                   .why = member->health().why(),
                   .stats = store != nullptr ? store->stats() : PageStoreStats{}});
  }
  return all;
}

WorkerId SpreadStore::worker() const {
  for (const MemberPtr& member : members_) {
    if (const DirectoryStore* store = member->store()) return WorkerId(store->worker());
  }
  return {};
}

Task<> SpreadStore::watch() {
  const Context until_stop = Context::background().with_cancel(stopping_.get_token());
  for (Clock::time_point last = Clock::now(); co_await sleep_for(until_stop, look_every_);) {
    const Clock::time_point now = Clock::now();
    const Clock::duration since = now - std::exchange(last, now);
    // If this process was stopped (SIGSTOP, a frozen container), it has not seen the completed
    // calls yet.
    if (since > look_every_ + kOwnPauseMax) continue;
    for (size_t i = 0; i < members_.size(); ++i) look(i, now);
  }
}

void SpreadStore::look(size_t directory, Clock::time_point now) {
  std::lock_guard one_at_a_time(looking_mutex_);
  DirectoryMember& member = *members_[directory];
  if (member.look(now)) background_->spawn(executor_, reopen(member));
}

Task<> SpreadStore::reopen(DirectoryMember& member) {
  co_await member.reopen();
  apply_policies();
}

}  // namespace leat
