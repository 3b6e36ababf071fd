// SPDX-License-Identifier: Apache-2.0
// Each operation that waits for the disk runs as its own task, which owns all that it uses. The
// caller waits for its result, or for the opening to be given up. Nothing here waits for the disk
// itself.
#include "cache/spread/directory_member.h"

#include <fmt/format.h>

#include <algorithm>

#include "telemetry/log.h"

namespace leat {
namespace {

constexpr auto kLastCallsPause = std::chrono::milliseconds(5);
constexpr size_t kDroppedMax = 65'536;

// Forwards to a listener until the owner of the listener detaches it.
class LooseListener {
 public:
  explicit LooseListener(HostCache::StepListener listener) : listener_(std::move(listener)) {}
  void tell(const VerifyStep& step) {
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

Task<Result<>> end_of(Activity* operations) {
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

DirectoryMember::DirectoryMember(PageStoreOptions options, HostCache::DiskMaker make_disk,
                                 Executor& executor, HealthTimes times)
    : options_(std::move(options)),
      make_disk_(std::move(make_disk)),
      executor_(executor),
      health_(std::make_shared<DirectoryHealth>(times)),
      plain_(make_disk_()),
      next_(new_opening(plain_)),
      state_gauge_(
          kState, [held = health_] { return static_cast<double>(held->state()); },
          metric_label("directory", options_.directory)) {}

// A probe may hang, and keeps the disk.
DirectoryMember::~DirectoryMember() {
  if (health_->state() == DirectoryState::kDown) plain_->threads().give_up();
}

Error DirectoryMember::does_not_answer() const {
  return error(StatusCode::kUnavailable,
               fmt::format("the cache directory {} is not in use: its disk did not answer",
                           options_.directory));
}

template <class T>
Task<> DirectoryMember::answer([[maybe_unused]] Asked asked, Task<Result<T>> work,
                               std::shared_ptr<SharedResult<T>> outcome) {
  Result<T> value = co_await std::move(work);
  outcome->set(std::move(value));
}

// Starts at once on this thread, so an operation that need not wait costs no hop. A cancelled
// context ends it from inside. A started operation is completed, unless the disk hangs.
template <class T>
Task<Result<T>> DirectoryMember::patiently(Asked asked, Task<Result<T>> work) {
  auto outcome = SharedResult<T>::make();
  const Context until_given_up = Context::background().with_cancel(asked.at->given_up.get_token());
  executor_.spawn(answer<T>(std::move(asked), std::move(work), outcome));
  Result<T> value = co_await outcome->wait(until_given_up, "a cache disk");
  if (value) co_return value;
  if (auto answered = outcome->peek()) co_return *std::move(answered);
  co_return does_not_answer();
}

DirectoryMember::OpeningPtr DirectoryMember::current() const {
  Opening* now = now_.load();
  return now == nullptr ? nullptr : now->shared_from_this();
}

template <class T, class Work>
Task<Result<T>> DirectoryMember::ask(Work work) {
  OpeningPtr at = current();
  if (at == nullptr) co_return does_not_answer();
  std::optional<Activity::Token> under_way = at->operations.enter();
  if (!under_way) co_return does_not_answer();
  Task<Result<T>> asked_for = work(*at->store);
  Result<T> outcome =
      co_await patiently<T>({std::move(at), *std::move(under_way)}, std::move(asked_for));
  co_return outcome;
}

Task<Result<Bytes>> DirectoryMember::read(Context context, FileRefPtr ref, ByteRange range) {
  auto work = [context = std::move(context), ref = std::move(ref), range](DirectoryStore& store) {
    return store.read(context, ref, range);
  };
  return ask<Bytes>(std::move(work));
}

// A write that only goes to memory needs no task of its own.
Task<Result<>> DirectoryMember::write(Context context, FileRefPtr ref, uint64_t offset,
                                      Bytes data) {
  if (DirectoryStore* open = store()) {
    if (auto kept = open->try_write(*ref, offset, data)) co_return *std::move(kept);
  }
  auto work = [context = std::move(context), ref = std::move(ref), offset,
               data = std::move(data)](DirectoryStore& store) mutable {
    return store.write(context, ref, offset, std::move(data));
  };
  Result<> kept = co_await ask<void>(std::move(work));
  co_return kept;
}

Task<Result<>> DirectoryMember::flush(Context context) {
  auto work = [context = std::move(context)](DirectoryStore& store) {
    return store.flush(context);
  };
  return ask<void>(std::move(work));
}

Task<Result<ObjectPage>> DirectoryMember::objects(std::string after, size_t limit) {
  auto work = [after = std::move(after), limit](DirectoryStore& store) {
    return store.objects(after, limit);
  };
  return ask<ObjectPage>(std::move(work));
}

Task<Result<>> DirectoryMember::verify(Context context, HostCache::StepListener listener) {
  auto loose = std::make_shared<LooseListener>(std::move(listener));
  auto work = [context, loose](DirectoryStore& store) {
    return store.verify(context, [loose](const VerifyStep& step) { loose->tell(step); });
  };
  Result<> verified = co_await ask<void>(std::move(work));
  loose->detach();
  co_return verified;
}

Task<Result<uint64_t>> DirectoryMember::evict(std::optional<PoolId> pool, uint64_t bytes) {
  auto work = [pool, bytes](DirectoryStore& store) { return evict_from(&store, pool, bytes); };
  return ask<uint64_t>(std::move(work));
}

std::shared_ptr<BackingFile> DirectoryMember::backing(const FileRef& ref) {
  Opening* now = now_.load();
  if (now == nullptr || health_->state() == DirectoryState::kDown) return nullptr;
  if (now->disk->is_slow()) return nullptr;
  return now->store->backing(ref);
}

std::shared_ptr<BackingFile> DirectoryMember::hold(const FileRef& ref) {
  Opening* now = now_.load();
  if (now == nullptr || health_->state() == DirectoryState::kDown) return nullptr;
  return now->disk->is_slow() ? nullptr : now->store->hold(ref);
}

std::optional<StoredRange> DirectoryMember::stored(const FileRef& ref, ByteRange range) {
  Opening* now = now_.load();
  if (now == nullptr || health_->state() == DirectoryState::kDown) return std::nullopt;
  if (now->disk->is_slow()) return std::nullopt;
  return now->store->stored(ref, range);
}

uint64_t DirectoryMember::drop(const FileId& id) {
  {
    // A drop on a failing or hanging disk may be lost when the directory is reopened.
    std::lock_guard lock(mutex_);
    const Opening* now = now_.load();
    const bool sound =
        now != nullptr && health_->state() == DirectoryState::kNormal && !now->disk->is_slow();
    if (!sound && dropped_.size() < kDroppedMax) dropped_.push_back(id);
  }
  DirectoryStore* open = store();
  return open != nullptr ? open->drop(id) : 0;
}

DirectoryMember::OpeningPtr DirectoryMember::new_opening(const std::shared_ptr<Disk>& plain) const {
  return std::make_shared<Opening>(std::make_shared<WatchedDisk>(plain, health_));
}

Task<Result<>> DirectoryMember::open(Context context) {
  OpeningPtr at;
  {
    std::lock_guard lock(mutex_);
    at = next_;
    opening_ = true;
  }
  Result<std::shared_ptr<DirectoryStore>> store =
      co_await patiently<std::shared_ptr<DirectoryStore>>(
          {at, {}}, open_store(std::move(context), options_, executor_, at->disk, at->lock));
  if (store) co_return take(at, *std::move(store));
  at->disk->fence_off();
  at->lock->let_go();
  std::lock_guard lock(mutex_);
  opening_ = false;
  if (next_ == at) next_ = new_opening(plain_);
  co_return Error(store.error());
}

// The directory is open, unless it was given up at the same moment.
Result<> DirectoryMember::take(const OpeningPtr& at, std::shared_ptr<DirectoryStore> store) {
  std::vector<FileId> dropped;
  {
    std::lock_guard lock(mutex_);
    opening_ = false;
    if (next_ == at) {
      at->store = store;
      openings_.push_back(at);
      next_ = new_opening(plain_);
      gave_up_ = false;
      dropped.swap(dropped_);
      now_ = at.get();
    }
  }
  if (at->store == nullptr) {
    store->give_up();
    return does_not_answer();
  }
  for (const FileId& id : dropped) store->drop(id);
  return {};
}

Task<> DirectoryMember::close() {
  OpeningPtr at = current();
  bool gave_up = at == nullptr;
  if (at != nullptr) {
    if (health_->was_unwell()) at->store->distrust();
    Result<> closed = co_await patiently<void>({at, {}}, close_store(at->store));
    gave_up = !closed;
  }
  std::lock_guard lock(mutex_);
  if (gave_up && gave_up_) {
    log::warning("cache {}: not closed in order: its disk does not answer", options_.directory);
  }
}

// The state in memory may differ from the disk, and its descriptors may belong to a disk that is
// gone. Operations of the earlier opening end before another one is opened.
Task<> DirectoryMember::reopen() {
  OpeningPtr before = current();
  if (before != nullptr) {
    {
      std::lock_guard lock(mutex_);
      leaving_ = before;
      now_ = nullptr;
    }
    Result<> left = co_await leave(before);
    std::lock_guard lock(mutex_);
    leaving_ = nullptr;
    if (!left) {
      health_->not_opened(Clock::now(), left.error());
      co_return;
    }
  }
  co_await last_calls();
  Result<> opened = co_await open(Context::background());
  std::lock_guard lock(mutex_);
  if (opened && gave_up_) opened = does_not_answer();  // at this moment
  if (opened) {
    health_->opened();
  } else {
    health_->not_opened(Clock::now(), opened.error());
  }
}

Task<Result<>> DirectoryMember::leave(OpeningPtr before) {
  before->store->distrust();
  LEAT_CO_CHECK_OK(co_await patiently<void>({before, {}}, close_store(before->store)));
  LEAT_CO_CHECK_OK(co_await patiently<void>({before, {}}, end_of(&before->operations)));
  before->disk->fence_off();
  co_return Result<>();
}

// Hanging calls mostly return when the disk does. A call that never returns finds the fence, but
// its own write, unlink or open may take effect later, in the reopened directory.
Task<> DirectoryMember::last_calls() {
  std::vector<std::weak_ptr<WatchedDisk>> disks;
  {
    std::lock_guard lock(mutex_);
    disks = given_up_;
  }
  auto busy = [](const std::weak_ptr<WatchedDisk>& at) {
    const std::shared_ptr<WatchedDisk> disk = at.lock();
    return disk != nullptr && disk->calls().any();
  };
  const Clock::time_point until = Clock::now() + health_->times().last_calls_max;
  while (std::ranges::any_of(disks, busy) && Clock::now() < until && !winding_down_) {
    Result<> slept = co_await sleep_for(Context::background(), kLastCallsPause);
    static_cast<void>(slept);
  }
}

DirectoryMember::OpeningPtr DirectoryMember::active() const {
  std::lock_guard lock(mutex_);
  if (Opening* now = now_.load()) return now->shared_from_this();
  return leaving_ != nullptr ? leaving_ : opening_ ? next_ : nullptr;
}

bool DirectoryMember::look(Clock::time_point now) {
  OpeningPtr at = active();
  if (at != nullptr && health_->hangs(at->disk->calls(), now)) {
    give_up(at);
    at = nullptr;
  }
  if (winding_down_) return false;
  if (health_->probe_is_due(Clock::now())) {
    std::shared_ptr<WatchedDisk> disk;
    {
      std::lock_guard lock(mutex_);
      disk = at != nullptr ? at->disk : next_->disk;
    }
    executor_.spawn(probe(health_, health_->probe_number(), disk, options_.directory));
  }
  tell();
  return health_->opening_is_due();
}

void DirectoryMember::give_up(const OpeningPtr& at) {
  std::shared_ptr<Disk> another = make_disk_();
  {
    std::lock_guard lock(mutex_);
    now_ = nullptr;
    leaving_ = nullptr;
    gave_up_ = true;
    std::erase_if(given_up_, [](const auto& disk) { return disk.expired(); });
    given_up_.push_back(at->disk);
    plain_ = another;
    next_ = new_opening(plain_);
    health_->given_up(Clock::now());
  }
  // Order matters: a woken caller finds the store closed, and does not reach the disk any more.
  if (at->store != nullptr) at->store->refuse();
  at->disk->fence_off();
  at->disk->threads().give_up();
  at->lock->let_go();  // also if it is being opened
  if (at->store != nullptr) at->store->give_up();
  at->given_up.request_stop();
}

void DirectoryMember::tell() {
  const DirectoryState is = health_->state();
  if (is == std::exchange(told_, is)) return;
  if (is == DirectoryState::kNormal) {
    log::info("cache {}: normal again", options_.directory);
  } else {
    log::error("cache {}: {}: {}", options_.directory, to_string(is), health_->why());
  }
}

// Uses no object that ends with the cache: a probe may hang as long as the disk does.
Task<> DirectoryMember::probe(std::shared_ptr<DirectoryHealth> health, uint64_t number,
                              std::shared_ptr<WatchedDisk> disk, std::string directory) {
  Result<> outcome = co_await disk->threads().run(
      [&disk, &directory] { return probe_directory(*disk, directory); });
  if (number == health->probe_number()) health->probed(Clock::now(), outcome);
}

}  // namespace leat
