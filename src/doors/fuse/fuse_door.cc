// SPDX-License-Identifier: Apache-2.0
// How a door ends, in this order, so that nothing waits for something that has ended before:
//  1. requests that wait are cancelled; the threads still answer
//  2. the invalidation thread stops: the lock that it may wait for is held by a request, answered
//  now
//  3. the mount goes if nobody uses it; the session's threads stop; else it goes by force
//  4. the last coroutines have replied
//  5. the session, its place in the record, then what its requests worked with
#include "doors/fuse/fuse_door.h"

#include "doors/fuse/connection_record.h"
#include "doors/fuse/invalidation_thread.h"
#include "doors/fuse/mount_point.h"
#include "doors/fuse/session.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Names; at some 100 bytes each a few MiB at most.
constexpr size_t kInvalidationsMax = 65'536;
// After the last umount the kernel ends the connection at once; it has not, if others hold it.
constexpr auto kEndPatience = std::chrono::seconds(2);

Counter invalidations_total("leat_fuse_invalidations_total",
                            "Names that the kernel was told to forget");

class MountedDoor : public FuseDoor {
 public:
  MountedDoor(FuseDoorOptions options, FileSystem& file_system, Executor& executor)
      : state_(std::move(options), file_system, executor) {}
  ~MountedDoor() override;

  Result<> mount();

  Result<> unmount(bool lazy) override;
  bool tell_kernel() override { return invalidations_->flush(); }
  void wait() override { session_->wait(); }
  bool mounted() const override { return session_->running() && !detached_.load(); }
  bool serving() const override { return session_->running(); }
  FuseFeatures features() const override;
  FuseDoorStats stats() const override;

 private:
  void start_invalidations();

  DoorState state_;
  std::unique_ptr<Session> session_;
  std::string device_;                  // as the record knows it
  std::atomic<bool> detached_ = false;  // the name is gone, the connection may still live
  std::shared_ptr<InvalidationThread> invalidations_;
};

Result<> MountedDoor::mount() {
  LEAT_TRY(std::unique_ptr<Session> started, Session::start(state_, state_.options.mountpoint));
  session_ = std::move(started);
  if (ConnectionRecord* record = state_.options.connections) {
    device_ = record->add(state_.options.mountpoint);
  }
  start_invalidations();
  Result<> set = set_read_ahead(state_.options.mountpoint, state_.options.read_ahead_bytes);
  if (!set) {
    log::info("the kernel's read-ahead stays as it is: {}", set.error().to_string());
    return {};
  }
  std::lock_guard lock(state_.features_mutex);
  state_.features.read_ahead_bytes = state_.options.read_ahead_bytes;
  return {};
}

// A name that stays is looked up again at its next use: to forget it for good would take away what
// somebody mounted over a directory, which before Linux 6.2 is left to age instead.
void tell_belief(fuse_session* session, const Invalidation& name) {
  if (name.parent != 0) {
    const char* text = name.name.data();
    const size_t length = name.name.size();
    const int failed = fuse_lowlevel_notify_expire_entry(session, name.parent, text, length);
    if (failed == -ENOSYS && !name.directory) {
      fuse_lowlevel_notify_inval_entry(session, name.parent, text, length);
    }
  }
  // The attributes, and of a directory the listing that is kept.
  fuse_lowlevel_notify_inval_inode(session, name.node, name.directory ? 0 : -1, 0);
}

// ENOENT of any of these: the kernel did not hold it any more.
void tell(fuse_session* session, const Invalidation& name) {
  invalidations_total.add();
  if (name.only_belief) return tell_belief(session, name);
  fuse_lowlevel_notify_inval_entry(session, name.parent, name.name.data(), name.name.size());
  // The kernel takes a name that it does not hold for no change of the directory.
  if (name.node == 0) fuse_lowlevel_notify_inval_inode(session, name.parent, 0, 0);
}

void MountedDoor::start_invalidations() {
  fuse_session* session = session_->get();
  InvalidationThread::Kernel kernel;
  kernel.tell = [session](const Invalidation& name) { leat::tell(session, name); };
  kernel.forget_all = [session] {
    const int failed = fuse_lowlevel_notify_increment_epoch(session);
    if (failed == 0) return;
    log::warning(
        "more names changed than the kernel could be told of, and it cannot forget all at once "
        "({}): some are believed until their freshness ends",
        failed);
  };
  invalidations_ = std::make_shared<InvalidationThread>(std::move(kernel), kInvalidationsMax);
  // The file system may still be calling when the door is gone, so the listener holds the thread.
  state_.file_system.set_invalidation_listener(
      [queue = invalidations_](const Invalidation& name) { queue->push(name); });
}

Result<> MountedDoor::unmount(bool lazy) {
  if (!mounted()) {
    return error(StatusCode::kNotFound,
                 "nothing is mounted at " + state_.options.mountpoint + " any more");
  }
  Result<> done = unmount_path(state_.options.mountpoint, lazy);
  if (!done) return done;
  detached_ = true;
  if (!lazy && !session_->wait_for(kEndPatience)) {
    log::info("{} is mounted elsewhere, too, and served there until that ends",
              state_.options.mountpoint);
  }
  return {};
}

MountedDoor::~MountedDoor() {
  if (!session_) return;
  state_.file_system.set_invalidation_listener({});
  state_.waiting.cancel_all();
  invalidations_->stop();
  const bool in_the_way = mounted() && !unmount_path(state_.options.mountpoint, false);
  session_->exit();
  session_->wait();
  if (in_the_way) {
    log::warning("{} is in use; it is taken away by force", state_.options.mountpoint);
    force_unmount_path(state_.options.mountpoint);
  }
  state_.waiting.wait_until_none();
  session_.reset();
  if (!device_.empty()) state_.options.connections->remove(device_);
}

FuseFeatures MountedDoor::features() const {
  std::lock_guard lock(state_.features_mutex);
  FuseFeatures features = state_.features;
  features.passthrough = state_.passthrough.on();
  features.passthrough_off = state_.passthrough.off_reason();
  return features;
}

FuseDoorStats MountedDoor::stats() const {
  return {
      .waiting_requests = state_.waiting.size(),
      .passthrough_files = state_.passthrough.passed_through(),
      .pending_invalidations = invalidations_->pending(),
  };
}

}  // namespace

Result<std::unique_ptr<FuseDoor>> FuseDoor::mount(FuseDoorOptions options, FileSystem& file_system,
                                                  Executor& executor) {
  LEAT_TRY(options.mountpoint, resolve_mountpoint(options.mountpoint));
  auto door = std::make_unique<MountedDoor>(std::move(options), file_system, executor);
  LEAT_CHECK_OK(door->mount());
  return door;
}

}  // namespace leat
