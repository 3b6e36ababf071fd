// SPDX-License-Identifier: Apache-2.0
// Shutdown order, so that no step waits for something that has already ended.
// 1. Waiting requests are cancelled; the threads still answer.
// 2. The invalidation thread stops: the lock that it may wait for belongs to a request that is
//    answered now.
// 3. The mount is removed if unused and the session's threads stop; otherwise it is removed by
//    force.
// 4. The last coroutines have replied.
// 5. The session, its connection record, then the objects of its requests are destroyed.
#include "frontends/fuse/fuse_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>

#include "frontends/fuse/connection/connection_record.h"
#include "frontends/fuse/connection/dead_connections.h"
#include "frontends/fuse/connection/mount_point.h"
#include "frontends/fuse/invalidation_thread.h"
#include "frontends/fuse/session.h"
#include "runtime/gate.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Names; a few MiB at most at some 100 bytes each.
constexpr size_t kInvalidationsMax = 65'536;
// The kernel ends the connection right after the last unmount, unless other references exist.
constexpr auto kEndTimeout = std::chrono::seconds(2);
// Maximum number of opens in flight when a process is killed.
constexpr int32_t kUnrecordedBackingsMax = 128;

Counter invalidations_total("leat_fuse_invalidations_total", "Names invalidated in the kernel");

class FuseServerImpl : public FuseServer {
 public:
  FuseServerImpl(FuseServerOptions options, FileSystem& file_system, Executor& executor)
      : state_(std::move(options), file_system, executor),
        inherited_(state_.options.connection),
        detached_(state_.options.detached) {}
  ~FuseServerImpl() override;

  Result<> mount();

  Result<> unmount(bool lazy) override;
  bool flush_invalidations(const std::stop_token& cancel) override {
    return invalidations_->flush(cancel);
  }
  int connection() const override;
  void prepare_takeover(std::chrono::milliseconds timeout) override;
  void wait() override { session_->wait(); }
  bool mounted() const override { return session_->running() && !detached_.load(); }
  bool serving() const override { return session_->running(); }
  FuseFeatures features() const override;
  FuseServerStats stats() const override;

 private:
  Result<> take_over();
  Task<> resend_after_exit(std::vector<ProcessIdentity> predecessors, Gate::Holder token);
  void start_invalidations();

  FuseServerState state_;
  File inherited_;  // the session has a copy
  std::unique_ptr<Session> session_;
  std::string device_;  // as in the connection record
  Gate gate_;
  std::stop_source ending_;
  bool takeover_prepared_ = false;
  std::atomic<bool> detached_;  // the name is unmounted, the connection may still live
  std::shared_ptr<InvalidationThread> invalidations_;
};

Result<> FuseServerImpl::mount() {
  if (state_.options.no_open && !state_.options.read_only) {
    return error(StatusCode::kInvalidArgument,
                 "no_open needs a read-only mount: without opens, nothing checks a write before it "
                 "starts");
  }
  const bool successor = state_.options.connection >= 0;
  if (successor) LEAT_CHECK_OK(take_over());
  std::vector<ProcessIdentity> before = state_.records.exchange_server(this_process());
  std::erase_if(before, [](const ProcessIdentity& server) {
    return server.pid == ::getpid() || state_of(server) == ProcessState::kExited;
  });
  // Then the kernel may resend some requests twice.
  if (!before.empty()) state_.records.deduplicate_releases(true);
  LEAT_TRY(std::unique_ptr<Session> started, Session::start(state_, state_.options.mountpoint));
  session_ = std::move(started);
  inherited_ = File();
  if (!before.empty()) {
    if (auto token = gate_.enter()) {
      state_.executor.spawn(resend_after_exit(std::move(before), *std::move(token)));
    }
  }
  ConnectionRecord* record = state_.options.connections;
  if (record != nullptr && !detached_) {
    device_ = record->add(state_.options.mountpoint);
  }
  start_invalidations();
  if (successor || !state_.uses(FuseFeature::kReadAhead)) return {};
  Result<> set = set_read_ahead(state_.options.mountpoint, state_.options.read_ahead_bytes);
  if (!set) {
    log::info("failed to set the kernel's read-ahead: {}", set.error().to_string());
    return {};
  }
  std::lock_guard lock(state_.features_mutex);
  state_.features.read_ahead_bytes = state_.options.read_ahead_bytes;
  return {};
}

// Runs before any kernel request is taken.
Result<> FuseServerImpl::take_over() {
  if (!state_.predecessor_init) {
    return error(StatusCode::kCorrupt,
                 fmt::format("the mount at {} has a connection but no recorded FUSE_INIT",
                             state_.options.mountpoint));
  }
  std::vector<ReopenedFile> files = state_.file_system.take_over();
  std::set<int32_t> known;
  for (ReopenedFile& file : files) {
    if (file.backing != 0) known.insert(file.backing);
    state_.files.take_over(std::move(file));
  }
  state_.directories.take_over();
  state_.backings.connect(state_.options.connection);
  // Returns backing ids that were not recorded in time, or were removed but not returned. An
  // unknown id costs one call.
  for (const TakeoverRecords::UnansweredOp& done : state_.records.collect_unanswered()) {
    if (done.backing != 0 && !known.contains(done.backing)) state_.backings.remove(done.backing);
  }
  const int32_t newest = state_.records.latest_backing();
  for (int32_t id = std::max(1, newest - kUnrecordedBackingsMax);
       id <= newest + kUnrecordedBackingsMax; ++id) {
    if (!known.contains(id)) state_.backings.remove(id);
  }
  return {};
}

// A killed process that has not ended may hold a request that is between the kernel's queues. A
// resend does not find it (measured: docs/design/0006-live-takeover.md). So the kernel is requested
// to resend again after that process has ended. A request that comes twice is answered once, and
// the other answer is undone.
Task<> FuseServerImpl::resend_after_exit(std::vector<ProcessIdentity> predecessors, Gate::Holder) {
  const Context context = Context::background().with_cancel(ending_.get_token());
  for (const ProcessIdentity& predecessor : predecessors) {
    while (state_of(predecessor) != ProcessState::kExited) {
      if (!co_await sleep_for(context, std::chrono::milliseconds(20))) co_return;
    }
  }
  session_->request_resend();
  // By then all resent requests have arrived, so the list of releases can be dropped.
  if (co_await sleep_for(context, std::chrono::seconds(30)))
    state_.records.deduplicate_releases(false);
}

int FuseServerImpl::connection() const {
  std::lock_guard lock(state_.features_mutex);
  return state_.features.survives ? session_->fd() : -1;
}

void FuseServerImpl::prepare_takeover(std::chrono::milliseconds timeout) {
  state_.file_system.set_invalidation_listener({});
  session_->exit();
  state_.pending.wait_until_none(timeout);
  // Later replies of its coroutines would be errors, and their counts belong to the successor,
  // which gets the requests again.
  session_->discard_replies();
  if (MemfdRecordTable* records = state_.records.records()) {
    if (auto left = records->detach(); !left) log::error("{}", left.error().to_string());
  }
  takeover_prepared_ = true;
  state_.pending.cancel_all();
  state_.pending.wait_until_none();
}

// Expires a name, so that its next use is a lookup. Forgetting a directory's name would remove a
// mount on top of it. So before Linux 6.2 a directory's name ages instead; others are forgotten.
void send_expiry(fuse_session* session, bool expires, const KernelInvalidation& name) {
  if (name.parent != 0) {
    const char* text = name.name.data();
    const size_t length = name.name.size();
    int failed = -ENOSYS;
    if (expires) {
      failed = fuse_lowlevel_notify_expire_entry(session, name.parent, text, length);
    }
    if (failed == -ENOSYS && !name.directory) {
      fuse_lowlevel_notify_inval_entry(session, name.parent, text, length);
    }
  }
  // The attributes, and the cached listing of a directory.
  fuse_lowlevel_notify_inval_inode(session, name.node, name.directory ? 0 : -1, 0);
}

// Pages that are not open or mapped are dropped at once, others when they are read or touched next.
// With passthrough there are none: the kernel uses the cache's file until its last close.
void send_page_invalidation(fuse_session* session, FuseServerState& server,
                            const KernelInvalidation& name) {
  fuse_lowlevel_notify_inval_inode(session, name.node, 0, 0);
  if (server.files.backing_of(name.node) == 0) return;
  server.file_system.retire(name.node);
  fuse_lowlevel_notify_inval_entry(session, name.parent, name.name.data(), name.name.size());
}

// ENOENT means that the kernel no longer had the name.
void send_invalidation(fuse_session* session, FuseServerState& server, bool expires,
                       const KernelInvalidation& name) {
  invalidations_total.add();
  if (name.pages) return send_page_invalidation(session, server, name);
  if (name.expire_only) return send_expiry(session, expires, name);
  fuse_lowlevel_notify_inval_entry(session, name.parent, name.name.data(), name.name.size());
  // The kernel ignores names that it does not have, so the directory is invalidated as well.
  if (name.node == 0) fuse_lowlevel_notify_inval_inode(session, name.parent, 0, 0);
}

// Logs on the executor, because the invalidation thread has no log descriptor.
Task<> log_queue_overflow(int failed) {
  log::warning(
      "the invalidation queue overflowed, and the kernel cannot invalidate all names at once "
      "({}): some names stay cached until their timeout",
      failed);
  co_return;
}

void FuseServerImpl::start_invalidations() {
  fuse_session* session = session_->get();
  InvalidationThread::Kernel kernel;
  const bool expires = state_.uses(FuseFeature::kExpire);
  kernel.invalidate = [session, expires, this](const KernelInvalidation& name) {
    leat::send_invalidation(session, state_, expires, name);
  };
  kernel.connection = session_->fd();
  const bool epochs = state_.uses(FuseFeature::kEpochs);
  kernel.invalidate_all = [session, epochs, &executor = state_.executor] {
    const int failed = epochs ? fuse_lowlevel_notify_increment_epoch(session) : -ENOSYS;
    if (failed != 0) executor.spawn(log_queue_overflow(failed));
  };
  invalidations_ = std::make_shared<InvalidationThread>(std::move(kernel), kInvalidationsMax);
  // The file system may still call after the server has ended, so the listener holds the thread.
  state_.invalidations = invalidations_.get();
  state_.file_system.set_invalidation_listener(
      [queue = invalidations_](const KernelInvalidation& name) { queue->push(name); });
}

Result<> FuseServerImpl::unmount(bool lazy) {
  if (!mounted()) {
    return error(StatusCode::kNotFound,
                 "nothing is mounted at " + state_.options.mountpoint + " any more");
  }
  Result<> done = unmount_path(state_.options.mountpoint, lazy);
  if (!done) return done;
  detached_ = true;
  if (!lazy && !session_->wait_for(kEndTimeout)) {
    log::info("{} is mounted elsewhere, too, and served there until that ends",
              state_.options.mountpoint);
  }
  return {};
}

FuseServerImpl::~FuseServerImpl() {
  ending_.request_stop();
  gate_.close();
  state_.executor.block_on(gate_.wait_idle());
  if (!session_) return;
  state_.file_system.set_invalidation_listener({});
  if (takeover_prepared_) {
    invalidations_->stop();
    return;
  }
  state_.pending.cancel_all();
  invalidations_->stop();
  const bool in_the_way = mounted() && !unmount_path(state_.options.mountpoint, false);
  session_->exit();
  session_->wait();
  if (in_the_way) {
    log::warning("{} is in use; unmounting it by force", state_.options.mountpoint);
    force_unmount_path(state_.options.mountpoint);
  }
  state_.pending.wait_until_none();
  state_.closing.close();
  state_.executor.block_on(state_.closing.wait_idle());
  session_.reset();
  if (!device_.empty()) state_.options.connections->remove(device_);
}

FuseFeatures FuseServerImpl::features() const {
  std::lock_guard lock(state_.features_mutex);
  FuseFeatures features = state_.features;
  features.passthrough = state_.files.passthrough_enabled();
  features.passthrough_off = state_.files.off_reason();
  return features;
}

FuseServerStats FuseServerImpl::stats() const {
  return {
      .pending_requests = state_.pending.size(),
      .passthrough_files = state_.files.passthrough_files(),
      .pending_invalidations = invalidations_->pending(),
  };
}

}  // namespace

Result<std::unique_ptr<FuseServer>> FuseServer::mount(FuseServerOptions options,
                                                      FileSystem& file_system, Executor& executor) {
  // In a takeover, resolving the path would send a request to ourselves.
  if (options.connection < 0) {
    LEAT_TRY(options.mountpoint, resolve_mountpoint(options.mountpoint));
  }
  auto server = std::make_unique<FuseServerImpl>(std::move(options), file_system, executor);
  LEAT_CHECK_OK(server->mount());
  return server;
}

}  // namespace leat
