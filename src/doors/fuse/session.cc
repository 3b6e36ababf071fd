// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/session.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "doors/fuse/mount_point.h"
#include "doors/fuse/operations.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// FACTS 1.1: the sizes that were measured best.
constexpr unsigned kRequestBytesMax = 1 << 20;
constexpr unsigned kBackgroundRequestsMax = 64;
constexpr unsigned kRingDepth = 16;

// The last thing that libfuse said on this thread: it explains failures in its log only.
thread_local std::string last_words;

void on_libfuse_log(fuse_log_level level, const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  last_words = text;
  while (last_words.ends_with('\n')) last_words.pop_back();
  if (level <= FUSE_LOG_ERR) {
    log::info("libfuse: {}", last_words);
  } else {
    log::debug("libfuse: {}", last_words);
  }
}

// A comma would end the option.
std::string escape_option(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == ',' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string mount_options(const FuseDoorOptions& options) {
  std::string text = "default_permissions,subtype=leat,fsname=" + escape_option(options.fs_name);
  if (options.allow_other) text += ",allow_other";
  if (options.read_only) text += ",ro";
  if (options.io_uring) text += fmt::format(",io_uring,io_uring_q_depth={}", kRingDepth);
  return text;
}

void agree_on_caching(fuse_conn_info* kernel) {
  // One READDIRPLUS beats one LOOKUP a name, also for programs that need no attributes.
  fuse_set_feature_flag(kernel, FUSE_CAP_READDIRPLUS);
  fuse_unset_feature_flag(kernel, FUSE_CAP_READDIRPLUS_AUTO);
  // A node is one version: its pages are never out of date.
  fuse_unset_feature_flag(kernel, FUSE_CAP_AUTO_INVAL_DATA);
  fuse_set_feature_flag(kernel, FUSE_CAP_EXPLICIT_INVAL_DATA);
  fuse_set_feature_flag(kernel, FUSE_CAP_PARALLEL_DIROPS);
  fuse_set_feature_flag(kernel, FUSE_CAP_ASYNC_READ);
  fuse_set_feature_flag(kernel, FUSE_CAP_ASYNC_DIO);
  // Nodes are not found by their number alone once they are forgotten.
  fuse_set_feature_flag(kernel, FUSE_CAP_NO_EXPORT_SUPPORT);
  // Replies lie in memory: splicing them costs more than it saves.
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_READ);
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_WRITE);
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_MOVE);
  kernel->max_write = kRequestBytesMax;  // bounds READ as well
  kernel->max_background = kBackgroundRequestsMax;
  kernel->congestion_threshold = kBackgroundRequestsMax * 3 / 4;
  kernel->time_gran = 1;
}

void init(void* user, fuse_conn_info* kernel) {
  auto& door = *static_cast<DoorState*>(user);
  agree_on_caching(kernel);
  if (!door.options.passthrough) {
    fuse_unset_feature_flag(kernel, FUSE_CAP_PASSTHROUGH);
    door.passthrough.turn_off("it was not asked for");
  } else if (!fuse_set_feature_flag(kernel, FUSE_CAP_PASSTHROUGH)) {
    door.passthrough.turn_off("the kernel does not offer it (it came with 6.9)");
  }
  {
    std::lock_guard lock(door.features_mutex);
    door.features.protocol_major = kernel->proto_major;
    door.features.protocol_minor = kernel->proto_minor;
    door.features.readdirplus = fuse_get_feature_flag(kernel, FUSE_CAP_READDIRPLUS);
    door.features.parallel_directory_operations =
        fuse_get_feature_flag(kernel, FUSE_CAP_PARALLEL_DIROPS);
    door.features.io_uring =
        door.options.io_uring && fuse_get_feature_flag(kernel, FUSE_CAP_OVER_IO_URING);
    door.features.request_bytes_max = kernel->max_write;
  }
  door.initialised.set_value();
}

fuse_session* make_session(DoorState& door) {
  static std::once_flag once;
  std::call_once(once, [] { fuse_set_log_func(&on_libfuse_log); });
  fuse_lowlevel_ops operations{};
  operations.init = &init;
  add_name_operations(operations);
  add_file_operations(operations);
  add_refused_operations(operations);
  std::string program = "leat", flag = "-o", options = mount_options(door.options);
  char* words[] = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  fuse_session* session = fuse_session_new(&arguments, &operations, sizeof operations, &door);
  fuse_opt_free_args(&arguments);
  return session;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::start(DoorState& door, const std::string& mountpoint) {
  last_words.clear();
  fuse_session* made = make_session(door);
  if (made == nullptr) {
    return error(StatusCode::kInternal, "libfuse refused to make a session: " + last_words);
  }
  std::unique_ptr<Session> session(new Session(door, made));
  if (fuse_session_mount(made, mountpoint.c_str()) != 0) {
    const int failed = errno;
    session->ended_ = true;
    std::string text = fmt::format("cannot mount at {}: {}", mountpoint, last_words);
    if (failed == EPERM || failed == EACCES) {
      return error(StatusCode::kPermissionDenied,
                   text + "; mounting needs CAP_SYS_ADMIN or fusermount3, and /dev/fuse");
    }
    return error(StatusCode::kUnsupported, text + "; is /dev/fuse here, and may it be opened?");
  }
  door.backings.connect(fuse_session_fd(made));
  std::future<void> agreed = door.initialised.get_future();
  session->thread_ = std::thread([self = session.get()] { self->take_requests(); });
  pthread_setname_np(session->thread_.native_handle(), "leat-fuse");
  // INIT is in the queue as soon as the mount is there, so only a kernel that is stuck takes long.
  if (agreed.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
    force_unmount_path(mountpoint);
    return error(StatusCode::kUnavailable,
                 "the kernel did not begin to talk to the mount at " + mountpoint + " within 30 s");
  }
  return session;
}

Session::~Session() {
  if (!thread_.joinable()) return;
  exit();
  thread_.join();
}

void Session::take_requests() {
  const unsigned threads = door_.options.threads != 0
                               ? door_.options.threads
                               : std::max(2u, std::thread::hardware_concurrency());
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, threads);
  fuse_loop_cfg_set_idle_threads(config, threads);
  fuse_loop_cfg_set_clone_fd(config, 1);
  const int result = fuse_session_loop_mt(session_.get(), config);
  fuse_loop_cfg_destroy(config);
  if (result != 0) log::info("the session of a mount ended with {}", result);
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (door_.options.on_unmounted) door_.options.on_unmounted();
}

void Session::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_.load(); });
}

bool Session::wait_for(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return ended_.load(); });
}

}  // namespace leat
