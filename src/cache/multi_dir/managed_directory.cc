// SPDX-License-Identifier: Apache-2.0
// Each operation that waits for the disk runs as its own task, which owns all that it uses. The
// caller waits for its result, or for the opening to be given up. Nothing here waits for the disk
// itself.
#include "cache/multi_dir/managed_directory.h"

#include <fmt/format.h>

#include <algorithm>

#include "telemetry/log.h"

namespace leat {
namespace {

constexpr auto kDrainPollInterval = std::chrono::milliseconds(5);
constexpr size_t kDroppedMax = 65'536;

// Forwards to a listener until the owner of the listener detaches it.
class DetachableListener {
 public:
  explicit DetachableListener(HostCache::StepListener listener) : listener_(std::move(listener)) {}
  void notify(const VerifyStep& step) {
    std::lock_guard lock(mutex_);
    if (listener_) listener_(step);
  }
  void detach() {
    std::lock_guard lock(mutex_);
    listener_ = nullptr;
  }

 private:
  std::mutex mutex_;  // held while the listener runs
  HostCache::StepListener listener_;
};

Task<Result<std::shared_ptr<DirectoryStore>>> open_store(Context context, PageStoreOptions options,
                                                         Executor& executor,
                                                         std::shared_ptr<Disk> disk,
                                                         DirectoryStore::LockPtr lock) {
  Result<std::unique_ptr<DirectoryStore>> store = co_await DirectoryStore::open(
      std::move(context), std::move(options), executor, std::move(disk), std::move(lock));
  if (!store) co_return Error(store.error());
  co_return std::shared_ptr<DirectoryStore>(*std::move(store));
}

Task<Result<>> close_store(std::shared_ptr<DirectoryStore> store) {
  co_await store->close();
  co_return Result<>();
}

Task<Result<>> drain_operations(Gate* operations) {
  operations->close();
  co_await operations->wait_idle();
  co_return Result<>();
}

Task<Result<uint64_t>> evict_from(DirectoryStore* store, std::optional<PoolId> pool,
                                  uint64_t bytes) {
  co_return co_await store->evict(pool, bytes);
}

const MetricFamily kState(MetricType::kGauge, "leat_cache_directory_state",
                          "0: normal, 1: unstable, 2: down", "directory");

}  // namespace

ManagedDirectory::ManagedDirectory(PageStoreOptions options, HostCache::DiskMaker make_disk,
                                   Executor& executor, HealthTimes times)
    : options_(std::move(options)),
      make_disk_(std::move(make_disk)),
      executor_(executor),
      health_(std::make_shared<DirectoryHealth>(times)),
      raw_disk_(make_disk_()),
      next_opening_(new_opening(raw_disk_)),
      state_gauge_(
          kState, [held = health_] { return static_cast<double>(held->state()); },
          metric_label("directory", options_.directory)) {}

// A probe may hang, and keeps the disk.
ManagedDirectory::~ManagedDirectory() {
  if (health_->state() == DirectoryState::kDown) raw_disk_->threads().shut_down();
}

Error ManagedDirectory::unresponsive_error() const {
  return error(StatusCode::kUnavailable,
               fmt::format("the cache directory {} is not in use: its disk does not respond",
                           options_.directory));
}

template <class T>
Task<> ManagedDirectory::complete([[maybe_unused]] Operation operation, Task<Result<T>> work,
                                  std::shared_ptr<SharedPromise<T>> outcome) {
  Result<T> value = co_await std::move(work);
  outcome->set(std::move(value));
}

// Starts at once on this thread, so an operation that need not wait costs no hop. A cancelled
// context ends it from inside. A started operation is completed, unless the disk hangs.
template <class T>
Task<Result<T>> ManagedDirectory::run_until_given_up(Operation operation, Task<Result<T>> work) {
  auto outcome = SharedPromise<T>::make();
  const Context until_given_up =
      Context::background().with_cancel(operation.at->given_up.get_token());
  executor_.spawn(complete<T>(std::move(operation), std::move(work), outcome));
  Result<T> value = co_await outcome->wait(until_given_up, "a cache disk");
  if (value) co_return value;
  if (auto answered = outcome->peek()) co_return *std::move(answered);
  co_return unresponsive_error();
}

ManagedDirectory::OpeningPtr ManagedDirectory::current() const {
  Opening* now = current_.load();
  return now == nullptr ? nullptr : now->shared_from_this();
}

template <class T, class Work>
Task<Result<T>> ManagedDirectory::run_operation(Work work) {
  OpeningPtr at = current();
  if (at == nullptr) co_return unresponsive_error();
  std::optional<Gate::Holder> holder = at->operations.enter();
  if (!holder) co_return unresponsive_error();
  Task<Result<T>> task = work(*at->store);
  Result<T> outcome =
      co_await run_until_given_up<T>({std::move(at), *std::move(holder)}, std::move(task));
  co_return outcome;
}

Task<Result<Bytes>> ManagedDirectory::read(Context context, FileRefPtr ref, ByteRange range) {
  auto work = [context = std::move(context), ref = std::move(ref), range](DirectoryStore& store) {
    return store.read(context, ref, range);
  };
  return run_operation<Bytes>(std::move(work));
}

// A write that only goes to memory needs no task of its own.
Task<Result<>> ManagedDirectory::write(Context context, FileRefPtr ref, uint64_t offset,
                                       Bytes data) {
  if (DirectoryStore* open = store()) {
    if (auto kept = open->try_write(*ref, offset, data)) co_return *std::move(kept);
  }
  auto work = [context = std::move(context), ref = std::move(ref), offset,
               data = std::move(data)](DirectoryStore& store) mutable {
    return store.write(context, ref, offset, std::move(data));
  };
  Result<> kept = co_await run_operation<void>(std::move(work));
  co_return kept;
}

Task<Result<>> ManagedDirectory::flush(Context context) {
  auto work = [context = std::move(context)](DirectoryStore& store) {
    return store.flush(context);
  };
  return run_operation<void>(std::move(work));
}

Task<Result<ObjectPage>> ManagedDirectory::objects(std::string after, size_t limit) {
  auto work = [after = std::move(after), limit](DirectoryStore& store) {
    return store.objects(after, limit);
  };
  return run_operation<ObjectPage>(std::move(work));
}

Task<Result<>> ManagedDirectory::verify(Context context, HostCache::StepListener listener) {
  auto detachable = std::make_shared<DetachableListener>(std::move(listener));
  auto work = [context, detachable](DirectoryStore& store) {
    return store.verify(context,
                        [detachable](const VerifyStep& step) { detachable->notify(step); });
  };
  Result<> verified = co_await run_operation<void>(std::move(work));
  detachable->detach();
  co_return verified;
}

Task<Result<uint64_t>> ManagedDirectory::evict(std::optional<PoolId> pool, uint64_t bytes) {
  auto work = [pool, bytes](DirectoryStore& store) { return evict_from(&store, pool, bytes); };
  return run_operation<uint64_t>(std::move(work));
}

std::shared_ptr<BackingFile> ManagedDirectory::backing(const FileRef& ref) {
  Opening* now = current_.load();
  if (now == nullptr || health_->state() == DirectoryState::kDown) return nullptr;
  if (now->disk->is_slow()) return nullptr;
  return now->store->backing(ref);
}

std::shared_ptr<BackingFile> ManagedDirectory::backing_unverified(const FileRef& ref) {
  Opening* now = current_.load();
  if (now == nullptr || health_->state() == DirectoryState::kDown) return nullptr;
  return now->disk->is_slow() ? nullptr : now->store->backing_unverified(ref);
}

std::optional<SendfileRange> ManagedDirectory::sendfile_range(const FileRef& ref, ByteRange range) {
  Opening* now = current_.load();
  if (now == nullptr || health_->state() == DirectoryState::kDown) return std::nullopt;
  if (now->disk->is_slow()) return std::nullopt;
  return now->store->sendfile_range(ref, range);
}

uint64_t ManagedDirectory::drop(const FileId& id) {
  {
    // A drop on a failing or hanging disk may be lost when the directory is reopened.
    std::lock_guard lock(mutex_);
    const Opening* now = current_.load();
    const bool sound =
        now != nullptr && health_->state() == DirectoryState::kNormal && !now->disk->is_slow();
    if (!sound && dropped_.size() < kDroppedMax) dropped_.push_back(id);
  }
  DirectoryStore* open = store();
  return open != nullptr ? open->drop(id) : 0;
}

ManagedDirectory::OpeningPtr ManagedDirectory::new_opening(
    const std::shared_ptr<Disk>& raw_disk) const {
  return std::make_shared<Opening>(std::make_shared<MonitoredDisk>(raw_disk, health_));
}

Task<Result<>> ManagedDirectory::open(Context context) {
  OpeningPtr at;
  {
    std::lock_guard lock(mutex_);
    at = next_opening_;
    opening_ = true;
  }
  Result<std::shared_ptr<DirectoryStore>> store =
      co_await run_until_given_up<std::shared_ptr<DirectoryStore>>(
          {at, {}}, open_store(std::move(context), options_, executor_, at->disk, at->lock));
  if (store) co_return activate(at, *std::move(store));
  at->disk->fence_off();
  at->lock->release();
  std::lock_guard lock(mutex_);
  opening_ = false;
  if (next_opening_ == at) next_opening_ = new_opening(raw_disk_);
  co_return Error(store.error());
}

// The directory is open, unless it was given up at the same moment.
Result<> ManagedDirectory::activate(const OpeningPtr& at, std::shared_ptr<DirectoryStore> store) {
  std::vector<FileId> dropped;
  {
    std::lock_guard lock(mutex_);
    opening_ = false;
    if (next_opening_ == at) {
      at->store = store;
      openings_.push_back(at);
      next_opening_ = new_opening(raw_disk_);
      gave_up_ = false;
      dropped.swap(dropped_);
      current_ = at.get();
    }
  }
  if (at->store == nullptr) {
    store->give_up();
    return unresponsive_error();
  }
  for (const FileId& id : dropped) store->drop(id);
  return {};
}

Task<> ManagedDirectory::close() {
  OpeningPtr at = current();
  bool gave_up = at == nullptr;
  if (at != nullptr) {
    if (health_->was_degraded()) at->store->mark_unclean();
    Result<> closed = co_await run_until_given_up<void>({at, {}}, close_store(at->store));
    gave_up = !closed;
  }
  std::lock_guard lock(mutex_);
  if (gave_up && gave_up_) {
    log::warning("cache {}: not closed cleanly: its disk does not respond", options_.directory);
  }
}

// The state in memory may differ from the disk, and its descriptors may belong to a disk that was
// removed. Operations of the earlier opening end before another one is opened.
Task<> ManagedDirectory::reopen() {
  OpeningPtr before = current();
  if (before != nullptr) {
    {
      std::lock_guard lock(mutex_);
      closing_ = before;
      current_ = nullptr;
    }
    Result<> left = co_await close_opening(before);
    std::lock_guard lock(mutex_);
    closing_ = nullptr;
    if (!left) {
      health_->note_open_failed(Clock::now(), left.error());
      co_return;
    }
  }
  co_await drain_calls();
  Result<> opened = co_await open(Context::background());
  std::lock_guard lock(mutex_);
  if (opened && gave_up_) opened = unresponsive_error();  // at this moment
  if (opened) {
    health_->note_opened();
  } else {
    health_->note_open_failed(Clock::now(), opened.error());
  }
}

Task<Result<>> ManagedDirectory::close_opening(OpeningPtr before) {
  before->store->mark_unclean();
  LEAT_CO_CHECK_OK(co_await run_until_given_up<void>({before, {}}, close_store(before->store)));
  LEAT_CO_CHECK_OK(
      co_await run_until_given_up<void>({before, {}}, drain_operations(&before->operations)));
  before->disk->fence_off();
  co_return Result<>();
}

// Hanging calls mostly return when the disk does. A call that never returns finds the fence, but
// its own write, unlink or open may take effect later, in the reopened directory.
Task<> ManagedDirectory::drain_calls() {
  std::vector<std::weak_ptr<MonitoredDisk>> disks;
  {
    std::lock_guard lock(mutex_);
    disks = given_up_;
  }
  auto busy = [](const std::weak_ptr<MonitoredDisk>& at) {
    const std::shared_ptr<MonitoredDisk> disk = at.lock();
    return disk != nullptr && disk->calls().any();
  };
  const Clock::time_point until = Clock::now() + health_->times().drain_timeout;
  while (std::ranges::any_of(disks, busy) && Clock::now() < until && !winding_down_) {
    Result<> slept = co_await sleep_for(Context::background(), kDrainPollInterval);
    static_cast<void>(slept);
  }
}

ManagedDirectory::OpeningPtr ManagedDirectory::active() const {
  std::lock_guard lock(mutex_);
  if (Opening* now = current_.load()) return now->shared_from_this();
  return closing_ != nullptr ? closing_ : opening_ ? next_opening_ : nullptr;
}

bool ManagedDirectory::poll_health(Clock::time_point now) {
  OpeningPtr at = active();
  if (at != nullptr && health_->hangs(at->disk->calls(), now)) {
    give_up(at);
    at = nullptr;
  }
  if (winding_down_) return false;
  if (health_->probe_is_due(Clock::now())) {
    std::shared_ptr<MonitoredDisk> disk;
    {
      std::lock_guard lock(mutex_);
      disk = at != nullptr ? at->disk : next_opening_->disk;
    }
    executor_.spawn(probe(health_, health_->probe_number(), disk, options_.directory));
  }
  log_state_change();
  return health_->opening_is_due();
}

void ManagedDirectory::give_up(const OpeningPtr& at) {
  std::shared_ptr<Disk> another = make_disk_();
  {
    std::lock_guard lock(mutex_);
    current_ = nullptr;
    closing_ = nullptr;
    gave_up_ = true;
    std::erase_if(given_up_, [](const auto& disk) { return disk.expired(); });
    given_up_.push_back(at->disk);
    raw_disk_ = another;
    next_opening_ = new_opening(raw_disk_);
    health_->note_given_up(Clock::now());
  }
  // Order matters: a woken caller finds the store closed, and does not reach the disk any more.
  if (at->store != nullptr) at->store->reject_new_work();
  at->disk->fence_off();
  at->disk->threads().shut_down();
  at->lock->release();  // also if it is being opened
  if (at->store != nullptr) at->store->give_up();
  at->given_up.request_stop();
}

void ManagedDirectory::log_state_change() {
  const DirectoryState is = health_->state();
  if (is == std::exchange(logged_state_, is)) return;
  if (is == DirectoryState::kNormal) {
    log::info("cache {}: normal again", options_.directory);
  } else {
    log::error("cache {}: {}: {}", options_.directory, to_string(is), health_->why());
  }
}

// Uses no object that ends with the cache: a probe may hang as long as the disk does.
Task<> ManagedDirectory::probe(std::shared_ptr<DirectoryHealth> health, uint64_t number,
                               std::shared_ptr<MonitoredDisk> disk, std::string directory) {
  Result<> outcome = co_await disk->threads().run(
      [&disk, &directory] { return probe_directory(*disk, directory); });
  if (number == health->probe_number()) health->note_probe(Clock::now(), outcome);
}

}  // namespace leat
