// SPDX-License-Identifier: Apache-2.0
// One change at a time: it is applied to a copy, the file is written, then the copy becomes
// visible. A watch waits for a signal that each change sets and replaces.
#include "cluster/embedded_registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <map>
#include <mutex>
#include <optional>
#include <stop_token>

#include "base/units.h"
#include "cluster/registry_state.h"
#include "runtime/disk.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using Signal = SharedPromise<bool>;

constexpr size_t kFileBytesMax = 256 * kMiB;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash + 1);
}

Result<> replace(Disk& disk, const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  LEAT_TRY(const File file, disk.open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  LEAT_CHECK_OK(disk.write_now(file.fd(), Bytes::copy_of(text), 0));
  LEAT_CHECK_OK(disk.sync_now(file.fd()));
  LEAT_CHECK_OK(disk.rename(fresh, path));
  return disk.sync_directory(folder_of(path));
}

// Locks a file beside the data file, which is replaced. Held while the descriptor is open.
Result<File> lock_beside(Disk& disk, const std::string& path) {
  LEAT_TRY(File file, disk.open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    return error(StatusCode::kBusy, fmt::format("{} is used by another process", path));
  }
  return file;
}

Result<RegistryState> restored(Disk& disk, const EmbeddedRegistryOptions& options) {
  RegistryState state(options.history_max);
  if (options.path.empty()) return state;
  Result<Buffer> found = disk.read_file(options.path, kFileBytesMax);
  if (!found && found.error().code() == StatusCode::kNotFound) return state;
  if (!found) return error(found.error().with_context("cannot read the registry"));
  if (Result<> read = state.restore(Bytes(std::move(*found)).to_string()); !read) {
    return error(read.error().with_context(fmt::format(
        "{} is no registry's file; move it away to begin with an empty one", options.path)));
  }
  return state;
}

// State shared by leases, watches and the registry; they may outlive the registry.
class Shared {
 public:
  Shared(std::string path, std::shared_ptr<Disk> disk, RegistryState state)
      : path_(std::move(path)), disk_(std::move(disk)), state_(std::move(state)) {}

  // Serializes changes, from the copy to the end.
  Semaphore& changing() { return changing_; }

  RegistryState copy() const {
    std::lock_guard lock(mutex_);
    return state_;
  }

  RegistryView list(const std::string& prefix) const {
    std::lock_guard lock(mutex_);
    return state_.list(prefix);
  }

  // Writes the entries without a lease.
  Task<Result<>> save(RegistryState state) const {
    if (path_.empty()) co_return Result<>();
    const std::string text = state.serialize();
    auto write = [this, &text] { return replace(*disk_, path_, text); };
    co_return co_await disk_->threads().run(write);
  }

  void become(RegistryState state) {
    std::shared_ptr<Signal> waiters;
    {
      std::lock_guard lock(mutex_);
      state_ = std::move(state);
      waiters = std::exchange(changed_, Signal::make());
    }
    waiters->set(true);
  }

  struct Changes {
    Result<RegistryEvents> events;
    std::shared_ptr<Signal> more;
  };
  Changes after(const std::string& prefix, RegistryRevision revision) const {
    std::lock_guard lock(mutex_);
    return {state_.after(prefix, revision), changed_};
  }

  void hold(RegistryLease lease, std::chrono::seconds ttl) {
    std::lock_guard lock(mutex_);
    leases_[lease] = {ttl, Clock::now() + ttl};
  }
  // Extends the lease and returns its time to live; nothing if it has ended.
  std::optional<std::chrono::seconds> extend(RegistryLease lease) {
    std::lock_guard lock(mutex_);
    auto found = leases_.find(lease);
    if (found == leases_.end()) return std::nullopt;
    found->second.end = Clock::now() + found->second.ttl;
    return found->second.ttl;
  }
  // Returns max() if the lease has ended.
  Clock::time_point end_of(RegistryLease lease) const {
    std::lock_guard lock(mutex_);
    auto found = leases_.find(lease);
    return found == leases_.end() ? Clock::time_point::max() : found->second.end;
  }
  void revoke(RegistryLease lease) {
    std::lock_guard lock(mutex_);
    leases_.erase(lease);
  }

 private:
  struct Held {
    std::chrono::seconds ttl;
    Clock::time_point end;
  };
  const std::string path_;
  const std::shared_ptr<Disk> disk_;
  Semaphore changing_{1};
  mutable std::mutex mutex_;
  RegistryState state_;
  std::map<RegistryLease, Held> leases_;
  std::shared_ptr<Signal> changed_ = Signal::make();
};

using SharedPtr = std::shared_ptr<Shared>;

Task<Result<Semaphore::Permit>> turn(SharedPtr shared, Context context) {
  LEAT_CO_CHECK_OK(context.check("a change of the registry"));
  co_return co_await shared->changing().acquire(context, 1, "a change of the registry");
}

// Ends the lease at its time, and then itself.
Task<> watch_over(Gate::Holder, SharedPtr shared, RegistryLease lease, Context context) {
  for (;;) {
    const Clock::time_point end = shared->end_of(lease);
    if (end == Clock::time_point::max()) co_return;
    if (const auto left = end - Clock::now(); left > Clock::duration::zero()) {
      Result<> slept = co_await sleep_for(context, left);
      if (!slept) co_return;
      continue;
    }
    auto permit = co_await turn(shared, context);
    if (!permit) co_return;
    if (shared->end_of(lease) > Clock::now()) continue;  // kept alive during the wait
    RegistryState state = shared->copy();
    shared->revoke(lease);
    if (state.revoke(lease)) shared->become(std::move(state));
    co_return;
  }
}

class EmbeddedRegistryImpl : public EmbeddedRegistry {
 public:
  EmbeddedRegistryImpl(SharedPtr shared, File lock, Executor& executor)
      : shared_(std::move(shared)), lock_(std::move(lock)), spawner_(executor) {}
  ~EmbeddedRegistryImpl() override { stopping_.request_stop(); }

  Task<Result<RegistryView>> list(Context context, std::string prefix) override {
    LEAT_CO_CHECK_OK(context.check("a listing of the registry"));
    co_return shared_->list(prefix);
  }

  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override {
    const SharedPtr shared = shared_;
    LEAT_CO_TRY(const auto permit, co_await turn(shared, context));
    RegistryState state = shared->copy();
    const RegistryRevision kept = state.durable_revision();
    LEAT_CO_TRY(const RegistryRevision revision, state.commit(std::move(change)));
    if (state.durable_revision() != kept) {
      LEAT_CO_CHECK_OK(co_await shared->save(state));
    }
    shared->become(std::move(state));
    co_return revision;
  }

  Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) override {
    const SharedPtr shared = shared_;
    if (ttl < std::chrono::seconds(1)) {
      co_return error(StatusCode::kInvalidArgument, "a lease lasts for a second at least");
    }
    LEAT_CO_TRY(const auto permit, co_await turn(shared, context));
    RegistryState state = shared->copy();
    const RegistryLease lease = state.grant();
    shared->become(std::move(state));
    shared->hold(lease, ttl);
    auto token = gate_.enter();
    if (!token) co_return error(StatusCode::kCancelled, "the registry is ending");
    const Context until_stop = Context::background().with_cancel(stopping_.get_token());
    spawner_.spawn(watch_over(std::move(*token), shared, lease, until_stop));
    co_return lease;
  }

  Task<> stop() override {
    stopping_.request_stop();
    gate_.close();
    co_await gate_.wait_idle();
  }

  Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) override {
    const SharedPtr shared = shared_;
    LEAT_CO_TRY(const auto permit, co_await turn(shared, context));
    if (const auto ttl = shared->extend(lease)) co_return *ttl;
    co_return error(StatusCode::kNotFound, fmt::format("lease {} has expired", lease));
  }

  Task<Result<>> revoke(Context context, RegistryLease lease) override {
    const SharedPtr shared = shared_;
    LEAT_CO_TRY(const auto permit, co_await turn(shared, context));
    shared->revoke(lease);
    RegistryState state = shared->copy();
    if (state.revoke(lease)) shared->become(std::move(state));
    co_return Result<>();
  }

  Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                       RegistrySink sink) override {
    const SharedPtr shared = shared_;
    if (auto first = shared->after(prefix, after); !first.events) {
      co_return Error(first.events.error());
    }
    LEAT_CO_CHECK_OK(co_await sink({.revision = after}));
    for (;;) {
      auto news = shared->after(prefix, after);
      if (!news.events) co_return Error(news.events.error());
      after = news.events->revision;
      if (!news.events->events.empty()) {
        news.events->revision = news.events->events.back().entry.changed;
        LEAT_CO_CHECK_OK(co_await sink(std::move(*news.events)));
        continue;
      }
      LEAT_CO_TRY(const bool more, co_await news.more->wait(context, "a watch of the registry"));
      static_cast<void>(more);
    }
  }

 private:
  const SharedPtr shared_;
  const File lock_;  // protects the file, which the lease watchers do not write
  const Spawner spawner_;
  std::stop_source stopping_;
  Gate gate_;  // lease watchers
};

}  // namespace

Result<std::unique_ptr<EmbeddedRegistry>> EmbeddedRegistry::open(EmbeddedRegistryOptions options,
                                                                 std::shared_ptr<Disk> disk,
                                                                 Executor& executor) {
  File lock;
  if (!options.path.empty()) {
    LEAT_TRY(lock, lock_beside(*disk, options.path));
  }
  LEAT_TRY(RegistryState state, restored(*disk, options));
  auto shared = std::make_shared<Shared>(options.path, std::move(disk), std::move(state));
  return std::make_unique<EmbeddedRegistryImpl>(std::move(shared), std::move(lock), executor);
}

}  // namespace leat
