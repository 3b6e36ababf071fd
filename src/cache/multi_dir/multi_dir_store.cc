// SPDX-License-Identifier: Apache-2.0
#include "cache/multi_dir/multi_dir_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/hash.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kPollInterval = std::chrono::seconds(1);
constexpr Clock::duration kPollIntervalMin = std::chrono::milliseconds(1);

// After a longer pause of the whole process, no disk is judged until the next check.
constexpr auto kOwnPauseMax = std::chrono::seconds(3);

// Weighted rendezvous hashing: each directory draws a number for each object, and the smallest
// wins. With exponentially distributed numbers of rate w the chance is w over the sum of all.
// Source: Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005.
double score(const FileId& id, const DirectoryStore& store) {
  const uint64_t bits = hash_mix(id.hash64() ^ store.uuid().hash64());
  const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
  return -std::log(uniform) / static_cast<double>(store.options().capacity_bytes);
}

// Returns true if the operator must act, since the disk is not the cause.
bool is_misuse(const Status& failure) {
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
  auto cache = std::make_unique<MultiDirStore>(std::move(directories), executor, make_disk);
  LEAT_CO_CHECK_OK(co_await cache->start(std::move(context)));
  co_return std::unique_ptr<HostCache>(std::move(cache));
}

MultiDirStore::MultiDirStore(std::vector<PageStoreOptions> directories, Executor& executor,
                             const DiskMaker& make_disk, HealthTimes times)
    : executor_(executor),
      poll_interval_(
          std::clamp<Clock::duration>(times.probe_interval, kPollIntervalMin, kPollInterval)) {
  for (PageStoreOptions& options : directories) {
    directories_.push_back(
        std::make_unique<ManagedDirectory>(std::move(options), make_disk, executor_, times));
  }
}

// Opens all at the same time: one that hangs is given up while the others are opened.
Task<Result<>> MultiDirStore::start(Context context) {
  monitor_task_->spawn(executor_, monitor());
  std::vector<std::shared_ptr<SharedPromise<bool>>> outcomes;
  for (const DirectoryPtr& directory : directories_) {
    outcomes.push_back(SharedPromise<bool>::make());
    background_->spawn(executor_, open(context, *directory, outcomes.back()));
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
    const bool worse = is_misuse(done.error()) || !context.check("opening the cache");
    if (!failure || (worse && !fatal)) failure = done.error();
    fatal = fatal || worse;
  }
  if (opened > 0 && !fatal) co_return Result<>();
  co_await close();
  co_return Error(*failure);
}

Task<> MultiDirStore::open(Context context, ManagedDirectory& directory,
                           std::shared_ptr<SharedPromise<bool>> outcome) {
  Result<> opened = co_await directory.open(std::move(context));
  if (opened) {
    apply_policies();
    outcome->set(true);
    co_return;
  }
  directory.note_open_failed(opened.error());
  outcome->set(Error(opened.error()));
}

// The monitor runs until all are closed.
Task<> MultiDirStore::close() {
  {
    std::lock_guard lock(poll_mutex_);
    for (const DirectoryPtr& directory : directories_) directory->wind_down();
  }
  co_await background_->idle();
  for (const DirectoryPtr& directory : directories_)
    background_->spawn(executor_, close(*directory));
  co_await background_->idle();
  stopping_.request_stop();
  co_await monitor_task_->idle();
}

Task<> MultiDirStore::close(ManagedDirectory& directory) {
  co_await directory.close();
}

MultiDirStore::Candidates MultiDirStore::candidates(const FileId& id) const {
  Candidates candidates;
  std::array<double, kCacheDirectoriesMax> scores;
  for (const DirectoryPtr& directory : directories_) {
    const DirectoryStore* store = directory->usable();
    if (store == nullptr) continue;
    // Insertion sort: there are few directories.
    const double number = score(id, *store);
    size_t at = candidates.count++;
    for (; at > 0 && scores[at - 1] > number; --at) {
      scores[at] = scores[at - 1];
      candidates.directories[at] = candidates.directories[at - 1];
    }
    scores[at] = number;
    candidates.directories[at] = directory.get();
  }
  return candidates;
}

ManagedDirectory* MultiDirStore::holder(const FileId& id) const {
  if (directories_.size() == 1)
    return directories_[0]->usable() != nullptr ? directories_[0].get() : nullptr;
  for (ManagedDirectory* directory : candidates(id)) {
    DirectoryStore* store = directory->usable();
    if (store != nullptr && store->contains(id)) return directory;
  }
  return nullptr;
}

DirectoryStore* MultiDirStore::holding_store(const FileId& id) const {
  ManagedDirectory* directory = holder(id);
  return directory != nullptr ? directory->usable() : nullptr;
}

ManagedDirectory* MultiDirStore::write_target(const FileId& id) const {
  for (ManagedDirectory* directory : candidates(id)) {
    if (directory->health().state() != DirectoryState::kNormal) continue;
    if (directory->store() != nullptr) return directory;
  }
  return nullptr;
}

std::vector<ManagedDirectory*> MultiDirStore::usable() const {
  std::vector<ManagedDirectory*> usable;
  for (const DirectoryPtr& directory : directories_) {
    if (directory->usable() != nullptr) usable.push_back(directory.get());
  }
  return usable;
}

std::optional<Bytes> MultiDirStore::try_read(const FileRef& ref, ByteRange range) {
  DirectoryStore* store = holding_store(ref.id);
  return store != nullptr ? store->try_read(ref, range) : std::nullopt;
}

// If a directory is given up meanwhile, reads from the next one that has the object; the first is
// not tried again.
Task<Result<Bytes>> MultiDirStore::read(Context context, FileRefPtr ref, ByteRange range) {
  if (range.clamp(ref->size).empty()) co_return Bytes();
  for (size_t tries = 0; tries < directories_.size(); ++tries) {
    ManagedDirectory* directory = holder(ref->id);
    if (directory == nullptr) break;
    Result<Bytes> bytes = co_await directory->read(context, ref, range);
    const bool given_up = !bytes && bytes.error().code() == StatusCode::kUnavailable;
    if (!given_up) co_return bytes;
  }
  co_return not_cached(ref->key);
}

void MultiDirStore::readahead(std::vector<FileRefPtr> refs, ReadaheadListener listener) {
  if (directories_.size() == 1) {
    if (DirectoryStore* store = holding_store({}))
      store->readahead(std::move(refs), std::move(listener));
    return;
  }
  std::map<DirectoryStore*, std::vector<FileRefPtr>> by_store;
  for (FileRefPtr& ref : refs) {
    if (DirectoryStore* store = holding_store(ref->id)) by_store[store].push_back(std::move(ref));
  }
  if (by_store.empty()) return;
  // The last store to respond reports the sum.
  struct Sum {
    std::atomic<uint64_t> cold = 0;
    std::atomic<size_t> left;
    ReadaheadListener listener;
  };
  auto sum = std::make_shared<Sum>();
  sum->left = by_store.size();
  sum->listener = std::move(listener);
  for (auto& [store, own] : by_store) {
    store->readahead(std::move(own), [sum](uint64_t cold) {
      sum->cold += cold;
      if (sum->left.fetch_sub(1) == 1 && sum->listener) sum->listener(sum->cold);
    });
  }
}

std::vector<ByteRange> MultiDirStore::missing(const FileRef& ref, ByteRange range) {
  if (DirectoryStore* store = holding_store(ref.id)) return store->missing(ref, range);
  range = range.clamp(ref.size);
  if (range.empty()) return {};
  if (packed(ref)) return {ByteRange{0, ref.size}};
  return {range.widen(kBlockBytes, ref.size)};
}

Task<Result<>> MultiDirStore::write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) {
  ManagedDirectory* directory = directories_.size() > 1 ? holder(ref->id) : nullptr;
  if (directory == nullptr) directory = write_target(ref->id);
  if (directory == nullptr) {
    co_return error(
        StatusCode::kNoSpace,
        fmt::format("{} is not cached: no cache directory works; 'leat status' shows why",
                    ref->key));
  }
  Result<> kept = co_await directory->write(std::move(context), ref, offset, std::move(data));
  co_return kept;
}

std::shared_ptr<BackingFile> MultiDirStore::backing(const FileRef& ref) {
  ManagedDirectory* directory = holder(ref.id);
  return directory != nullptr ? directory->backing(ref) : nullptr;
}

std::shared_ptr<BackingFile> MultiDirStore::backing_unverified(const FileRef& ref) {
  ManagedDirectory* directory = holder(ref.id);
  return directory != nullptr ? directory->backing_unverified(ref) : nullptr;
}

std::optional<SendfileRange> MultiDirStore::sendfile_range(const FileRef& ref, ByteRange range) {
  ManagedDirectory* directory = holder(ref.id);
  return directory != nullptr ? directory->sendfile_range(ref, range) : std::nullopt;
}

// All directories have the same packed_bytes_max.
bool MultiDirStore::packed(const FileRef& ref) const {
  if (DirectoryStore* store = holding_store(ref.id)) return store->packed(ref);
  return ref.size > 0 && ref.size < directories_[0]->options().packed_bytes_max;
}

uint64_t MultiDirStore::cached_bytes(const FileRef& ref) {
  DirectoryStore* store = holding_store(ref.id);
  return store != nullptr ? store->cached_bytes(ref) : 0;
}

// Includes directories that are down: they may come back.
uint64_t MultiDirStore::drop(const FileId& id) {
  uint64_t bytes = 0;
  for (const DirectoryPtr& directory : directories_) bytes += directory->drop(id);
  return bytes;
}

Task<Result<>> MultiDirStore::flush(Context context) {
  Result<> first_failure;
  for (ManagedDirectory* directory : usable()) {
    Result<> flushed = co_await directory->flush(context);
    if (!flushed && first_failure) first_failure = flushed;
  }
  co_return first_failure;
}

void MultiDirStore::set_pool_policy(PoolId id, const PoolPolicy& policy) {
  {
    std::lock_guard lock(mutex_);
    policies_[id] = policy;
  }
  apply_policies();
}

// A quota is divided as the objects are: by capacity.
void MultiDirStore::apply_policies() {
  std::lock_guard one_at_a_time(applying_mutex_);
  std::map<PoolId, PoolPolicy> policies;
  {
    std::lock_guard lock(mutex_);
    policies = policies_;
  }
  double whole = 0;
  for (const DirectoryPtr& directory : directories_) {
    DirectoryStore* store = directory->store();
    if (store != nullptr) whole += static_cast<double>(store->options().capacity_bytes);
  }
  for (const DirectoryPtr& directory : directories_) {
    DirectoryStore* store = directory->store();
    if (store == nullptr) continue;
    const double share = static_cast<double>(store->options().capacity_bytes) / whole;
    for (auto [id, policy] : policies) {
      policy.quota_bytes =
          static_cast<uint64_t>(std::ceil(static_cast<double>(policy.quota_bytes) * share));
      store->set_pool_policy(id, policy);
    }
  }
}

PageStoreStats MultiDirStore::stats() const {
  PageStoreStats sum{};
  for (const DirectoryPtr& directory : directories_) {
    const DirectoryStore* store = directory->store();
    if (store == nullptr) continue;
    const PageStoreStats stats = store->stats();
    sum.evicted_bytes += stats.evicted_bytes;
    sum.corrupt_blocks += stats.corrupt_blocks;
    sum.rejected_bytes += stats.rejected_bytes;
    if (directory->usable() == nullptr) continue;
    sum.capacity_bytes += stats.capacity_bytes;
    sum.used_bytes += stats.used_bytes;
    sum.unlinked_bytes += stats.unlinked_bytes;
    sum.files += stats.files;
    sum.packed_objects += stats.packed_objects;
    sum.segments += stats.segments;
  }
  return sum;
}

std::vector<PoolStats> MultiDirStore::pools() const {
  std::map<PoolId, PoolStats> pools;
  for (const ManagedDirectory* directory : usable()) {
    const DirectoryStore* store = directory->store();
    if (store == nullptr) continue;
    for (const PoolStats& pool : store->pools()) {
      auto [at, first] = pools.try_emplace(pool.id, pool);
      if (first) continue;
      at->second.policy.quota_bytes += pool.policy.quota_bytes;  // each has its share
      at->second.used_bytes += pool.used_bytes;
      at->second.unlinked_bytes += pool.unlinked_bytes;
      at->second.cyclic = at->second.cyclic && pool.cyclic;
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

std::vector<DirectoryStats> MultiDirStore::directories() const {
  std::vector<DirectoryStats> all;
  for (const DirectoryPtr& directory : directories_) {
    const DirectoryStore* store = directory->store();
    all.push_back({.path = directory->options().directory,
                   .state = directory->health().state(),
                   .why = directory->health().why(),
                   .stats = store != nullptr ? store->stats() : PageStoreStats{}});
  }
  return all;
}

WorkerId MultiDirStore::worker() const {
  for (const DirectoryPtr& directory : directories_) {
    if (const DirectoryStore* store = directory->store()) return WorkerId(store->worker());
  }
  return {};
}

Task<> MultiDirStore::monitor() {
  const Context until_stop = Context::background().with_cancel(stopping_.get_token());
  for (Clock::time_point last = Clock::now(); co_await sleep_for(until_stop, poll_interval_);) {
    const Clock::time_point now = Clock::now();
    const Clock::duration since = now - std::exchange(last, now);
    // If this process was stopped (SIGSTOP, a frozen container), it has not seen the completed
    // calls yet.
    if (since > poll_interval_ + kOwnPauseMax) continue;
    for (size_t i = 0; i < directories_.size(); ++i) poll_health(i, now);
  }
}

void MultiDirStore::poll_health(size_t index, Clock::time_point now) {
  std::lock_guard one_at_a_time(poll_mutex_);
  ManagedDirectory& directory = *directories_[index];
  if (directory.poll_health(now)) background_->spawn(executor_, reopen(directory));
}

Task<> MultiDirStore::reopen(ManagedDirectory& directory) {
  co_await directory.reopen();
  apply_policies();
}

}  // namespace leat
