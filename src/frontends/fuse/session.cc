// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/read_file.h"
#include "frontends/fuse/connection/mount_point.h"
#include "frontends/fuse/kernel_capabilities.h"
#include "frontends/fuse/operations.h"
#include "frontends/fuse/request_id.h"
#include "frontends/fuse/sched_policy_tuner.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Sizes that measured best.
constexpr unsigned kRequestBytesMax = 1 << 20;
constexpr unsigned kSmallRequestBytesMax = 128 * 1024;  // of older kernels
// Reads with readahead count, so it bounds what readers of a far store have in flight.
constexpr unsigned kBackgroundRequestsMax = 256;
constexpr unsigned kRingDepth = 16;

// Buffer of one read(): the kernel requires room for the largest request with its headers, even if
// none comes.
constexpr size_t kRequestBufferBytes = kRequestBytesMax + 64 * 1024;
// Covers all requests but a long list of forgotten names, which is never resent anyway.
constexpr size_t kResidentBytes = 128 * 1024;
constexpr std::chrono::milliseconds kInitTimeout = std::chrono::seconds(30);
const int kWakeSignal = SIGRTMIN;

Counter resent_requests(
    "leat_fuse_resent_requests_total",
    "Requests resent by the kernel because the previous daemon did not answer them", "",
    Stability::kExperimental);

// Last message of libfuse on this thread: it explains failures only in its log.
thread_local std::string last_message;

void on_libfuse_log(fuse_log_level level, const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  last_message = text;
  while (last_message.ends_with('\n')) last_message.pop_back();
  if (level <= FUSE_LOG_ERR) {
    log::info("libfuse: {}", last_message);
  } else {
    log::debug("libfuse: {}", last_message);
  }
}

// An unescaped comma would end the option.
std::string escape_option(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == ',' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string mount_options(const FuseServerOptions& options) {
  std::string text = "default_permissions,subtype=leat,fsname=" + escape_option(options.fs_name);
  if (options.allow_other) text += ",allow_other";
  if (options.read_only) text += ",ro";
  if (options.io_uring) text += fmt::format(",io_uring,io_uring_q_depth={}", kRingDepth);
  return text;
}

void set_capability(fuse_conn_info* kernel, uint64_t capability, bool wanted) {
  if (wanted) {
    fuse_set_feature_flag(kernel, capability);
  } else {
    fuse_unset_feature_flag(kernel, capability);
  }
}

// After capability negotiation libfuse's `want` shows what was offered.
bool has_capability(const fuse_conn_info* kernel, uint64_t capability) {
  return (kernel->want_ext & capability) != 0;
}

void set_capabilities(const FuseServerState& server, fuse_conn_info* kernel) {
  // One READDIRPLUS beats one LOOKUP a name, also for programs that need no attributes.
  set_capability(kernel, FUSE_CAP_READDIRPLUS, server.uses(FuseFeature::kReaddirplus));
  fuse_unset_feature_flag(kernel, FUSE_CAP_READDIRPLUS_AUTO);
  // A node is one version: its pages are never out of date.
  fuse_unset_feature_flag(kernel, FUSE_CAP_AUTO_INVAL_DATA);
  fuse_set_feature_flag(kernel, FUSE_CAP_EXPLICIT_INVAL_DATA);
  set_capability(kernel, FUSE_CAP_PARALLEL_DIROPS, server.uses(FuseFeature::kParallelDirectories));
  set_capability(kernel, FUSE_CAP_ASYNC_READ, server.uses(FuseFeature::kAsyncRead));
  fuse_set_feature_flag(kernel, FUSE_CAP_ASYNC_DIO);
  // The kernel itself then clears set-user-ID bits, by a change of the mode.
  fuse_unset_feature_flag(kernel, FUSE_CAP_HANDLE_KILLPRIV);
  fuse_unset_feature_flag(kernel, FUSE_CAP_HANDLE_KILLPRIV_V2);
  // A forgotten node cannot be found by its number alone.
  fuse_set_feature_flag(kernel, FUSE_CAP_NO_EXPORT_SUPPORT);
  // Replies are in memory: splicing them costs more than it saves.
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_READ);
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_WRITE);
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_MOVE);
  // Bounds READ as well.
  kernel->max_write =
      server.uses(FuseFeature::kLargeRequests) ? kRequestBytesMax : kSmallRequestBytesMax;
  kernel->max_background = kBackgroundRequestsMax;
  kernel->congestion_threshold = kBackgroundRequestsMax * 3 / 4;
  kernel->time_gran = 1;
  const bool bounded = server.uses(FuseFeature::kRequestTimeout);
  const auto seconds = static_cast<uint16_t>(server.options.request_timeout.count());
  kernel->request_timeout = bounded ? seconds : uint16_t{0};
}

// Repeats the predecessor's INIT result, whatever this version would prefer.
void restore_init_params(fuse_conn_info* kernel, const TakeoverRecords::InitParams& before) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t feature = uint64_t{1} << bit;
    set_capability(kernel, feature, (before.features & feature) != 0);
  }
  kernel->max_write = before.request_bytes_max;
}

void init(void* user, fuse_conn_info* kernel) {
  auto& server = *static_cast<FuseServerState*>(user);
  set_capabilities(server, kernel);
  set_capability(kernel, FUSE_CAP_NO_OPEN_SUPPORT,
                 server.options.no_open && server.uses(FuseFeature::kNoOpen));
  const char* unwanted = nullptr;
  if (!server.options.passthrough || !server.uses(FuseFeature::kPassthrough)) {
    unwanted = kPassthroughNotRequested;
  } else if (has_capability(kernel, FUSE_CAP_NO_OPEN_SUPPORT)) {
    unwanted = kPassthroughExcludedByNoOpen;
  }
  if (unwanted != nullptr) {
    fuse_unset_feature_flag(kernel, FUSE_CAP_PASSTHROUGH);
    server.files.disable_passthrough(unwanted);
  } else if (!fuse_set_feature_flag(kernel, FUSE_CAP_PASSTHROUGH)) {
    server.files.disable_passthrough("the kernel does not offer it (it came with 6.9)");
  }
  if (server.predecessor_init) restore_init_params(kernel, *server.predecessor_init);
  server.no_open = has_capability(kernel, FUSE_CAP_NO_OPEN_SUPPORT);
  {
    std::lock_guard lock(server.features_mutex);
    server.features.protocol_major = kernel->proto_major;
    server.features.protocol_minor = kernel->proto_minor;
    server.features.readdirplus = has_capability(kernel, FUSE_CAP_READDIRPLUS);
    server.features.parallel_directory_operations =
        has_capability(kernel, FUSE_CAP_PARALLEL_DIROPS);
    server.features.io_uring =
        server.options.io_uring && has_capability(kernel, FUSE_CAP_OVER_IO_URING);
    server.features.no_open = server.no_open;
    server.features.request_bytes_max = kernel->max_write;
    server.capabilities = kernel->want_ext;
  }
  server.initialised.set_value();
}

unsigned threads_of(const FuseServerOptions& options) {
  return options.threads != 0 ? options.threads : std::max(2u, std::thread::hardware_concurrency());
}

Status init_timed_out(const std::string& mountpoint) {
  return {StatusCode::kUnavailable,
          "the kernel sent no FUSE_INIT to the mount at " + mountpoint + " within 30 s"};
}

// fusermount3 reports this only on its standard error, so it is checked here.
bool needs_user_allow_other(const FuseServerOptions& options) {
  if (!options.allow_other || ::geteuid() == 0) return false;
  if (::access("/dev/fuse", R_OK | W_OK) != 0) return false;
  return !has_user_allow_other(read_file(kFuseConf).value_or(""));
}

fuse_session* make_session(FuseServerState& server) {
  static std::once_flag once;
  std::call_once(once, [] { fuse_set_log_func(&on_libfuse_log); });
  fuse_lowlevel_ops operations{};
  operations.init = &init;
  add_name_operations(operations);
  add_file_operations(operations);
  if (server.file_system.changes(kRootNode) != nullptr) {
    add_write_operations(operations);
  } else {
    add_rejected_operations(operations);
  }
  std::string program = "leat", flag = "-o", options = mount_options(server.options);
  char* words[] = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  fuse_session* session = fuse_session_new(&arguments, &operations, sizeof operations, &server);
  fuse_opt_free_args(&arguments);
  return session;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::start(FuseServerState& server,
                                                const std::string& mountpoint) {
  last_message.clear();
  fuse_session* made = make_session(server);
  if (made == nullptr) {
    return error(StatusCode::kInternal, "libfuse failed to create a session: " + last_message);
  }
  std::unique_ptr<Session> session(new Session(server, made));
  if (auto connected = session->connect(mountpoint); !connected) {
    session->ended_ = true;
    return error(connected.error());
  }
  server.backings.connect(session->fd());
  if (server.options.io_uring) {
    session->threads_.emplace_back([self = session.get()] { self->serve_ring(); });
    // INIT is queued as soon as the mount exists, so only a stuck kernel takes long.
    std::future<void> agreed = server.initialised.get_future();
    if (agreed.wait_for(kInitTimeout) == std::future_status::ready) return session;
    force_unmount_path(mountpoint);
    return error(init_timed_out(mountpoint));
  }
  if (auto agreed = session->negotiate(mountpoint); !agreed) {
    session->ended_ = true;
    return error(agreed.error());
  }
  // Before any request is taken, so that requests in flight here are not resent.
  if (server.predecessor_init) session->request_resend();
  const unsigned threads = threads_of(server.options);
  session->serving_ = threads;
  for (unsigned i = 0; i < threads; ++i) {
    session->threads_.emplace_back([self = session.get()] { self->serve_device(); });
    pthread_setname_np(session->threads_.back().native_handle(), "leat-fuse");
  }
  return session;
}

Result<> Session::connect(const std::string& mountpoint) {
  // libfuse's syntax for an existing mount.
  std::string at = mountpoint;
  int copy = -1;
  if (const int inherited = server_.options.connection; inherited >= 0) {
    copy = ::fcntl(inherited, F_DUPFD_CLOEXEC, 3);
    at = fmt::format("/dev/fd/{}", copy);
  }
  if (fuse_session_mount(session_.get(), at.c_str()) == 0) return {};
  const int failed = errno;
  if (copy >= 0) ::close(copy);
  if (needs_user_allow_other(server_.options)) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("cannot mount at {} with allow_other: {} has no line "
                             "'user_allow_other', without which only root may; add it (sudo leat "
                             "doctor --fix does), or mount without --allow-other",
                             mountpoint, kFuseConf));
  }
  std::string text = fmt::format("cannot mount at {}: {}", mountpoint, last_message);
  if (failed == EPERM || failed == EACCES) {
    return error(StatusCode::kPermissionDenied,
                 text + "; mounting needs CAP_SYS_ADMIN or fusermount3, and /dev/fuse");
  }
  return error(StatusCode::kUnsupported, text + "; is /dev/fuse here, and may it be opened?");
}

// The kernel's first request is INIT. A successor replays its predecessor's INIT; that answer is
// discarded, since the kernel has no such request any more.
Result<> Session::negotiate(const std::string& mountpoint) {
  std::vector<std::byte> request;
  if (server_.predecessor_init) {
    request = server_.predecessor_init->request;
  } else {
    pollfd wanted{fd(), POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(kInitTimeout / std::chrono::milliseconds(1))) != 1) {
      force_unmount_path(mountpoint);
      return error(init_timed_out(mountpoint));
    }
    request.resize(kRequestBufferBytes);
    const ssize_t got = ::read(fd(), request.data(), request.size());
    if (got <= 0) return error(status_from_errno(errno, "cannot read from /dev/fuse"));
    request.resize(static_cast<size_t>(got));
  }
  // libfuse modifies the request in place.
  std::vector<std::byte> copy = request;
  dispatch(copy);
  std::future<void> agreed = server_.initialised.get_future();
  if (agreed.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("the kernel and libfuse do not agree at {}: {}", mountpoint, last_message));
  }
  std::lock_guard lock(server_.features_mutex);
  if (server_.predecessor_init) {
    server_.features.survives = server_.predecessor_init->resends;
    return {};
  }
  const Result<InitRequest> init = parse_init(request);
  const bool resends = init && init->capabilities.resend && server_.uses(FuseFeature::kResend);
  server_.features.survives = resends && server_.records.enabled();
  return server_.records.record_init_params(
      {.request = std::move(request),
       .features = server_.capabilities,
       .request_bytes_max = static_cast<uint32_t>(server_.features.request_bytes_max),
       .resends = resends});
}

Session::~Session() {
  exit();
  for (std::thread& thread : threads_) thread.join();
}

void Session::exit() {
  fuse_session_exit(session_.get());
  exiting_ = true;
  // A thread may be about to enter read(), so one signal may come too early.
  while (serving_.load() > 0) {
    for (std::thread& thread : threads_) ::pthread_kill(thread.native_handle(), kWakeSignal);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1), [this] { return serving_.load() == 0; });
  }
}

void Session::discard_replies() {
  const File nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nowhere.fd(), fd());
}

void Session::serve_ring() {
  pthread_setname_np(pthread_self(), "leat-fuse");
  const unsigned threads = threads_of(server_.options);
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, threads);
  fuse_loop_cfg_set_idle_threads(config, threads);
  const int result = fuse_session_loop_mt(session_.get(), config);
  fuse_loop_cfg_destroy(config);
  if (result != 0) log::info("the session of a mount ended with {}", result);
  on_ended();
}

void Session::serve_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ignored{};
    ignored.sa_handler = [](int) {};  // without SA_RESTART, so that read() ends
    ::sigaction(kWakeSignal, &ignored, nullptr);
  });
  answer_requests();
  bool last;
  {
    std::lock_guard lock(mutex_);
    last = serving_.fetch_sub(1) == 1;
  }
  changed_.notify_all();
  if (last) on_ended();
}

void Session::answer_requests() {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kRequestBufferBytes);
  // The kernel does not fault in pages of a process that is being killed. A copy to a missing page
  // would be an error for the program, and the request would not be resent.
  std::memset(buffer.get(), 0, kResidentBytes);
  ::mlock(buffer.get(), kResidentBytes);
  SchedPolicyTuner tuner;
  while (!exiting_.load()) {
    const ssize_t got = ::read(fd(), buffer.get(), kRequestBufferBytes);
    if (got > 0) {
      dispatch({buffer.get(), static_cast<size_t>(got)});
      tuner.request_done();
      continue;
    }
    const int failed = errno;
    // ENOENT: the request was interrupted before we had it.
    if (failed == EINTR || failed == ENOENT || failed == EAGAIN) continue;
    if (failed != ENODEV) log::warning("the session of a mount ended: {}", std::strerror(failed));
    return;
  }
}

// The kernel's number is the second word of a request; libfuse does not pass it to handlers.
void Session::dispatch(std::span<std::byte> request) {
  current_unique = 0;
  if (request.size() >= 16) std::memcpy(&current_unique, request.data() + 8, 8);
  if ((current_unique & kResent) != 0) {
    resent_requests.add();
    if (undo_unanswered(server_, current_unique)) return reply_done();
  }
  fuse_buf buffer{};
  buffer.size = request.size();
  buffer.mem = request.data();
  fuse_session_process_buf(session_.get(), &buffer);
}

// Replies success to the current request, which was already executed.
void Session::reply_done() {
  struct {
    uint32_t length = 16;
    int32_t error = 0;
    uint64_t unique = current_unique;
  } answer;  // linux/fuse.h: fuse_out_header
  if (::write(fd(), &answer, sizeof answer) != sizeof answer && errno != ENOENT) {
    log::warning("failed to answer a resent request: {}", std::strerror(errno));
  }
}

void Session::request_resend() {
  struct {
    uint32_t length = 16;
    int32_t code = 7;  // FUSE_NOTIFY_RESEND, since 6.9
    uint64_t unique = 0;
  } notification;
  if (::write(fd(), &notification, sizeof notification) != sizeof notification) {
    log::warning("the kernel does not resend unanswered requests: {}", std::strerror(errno));
  }
}

void Session::on_ended() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (!exiting_.load() && server_.options.on_unmounted) server_.options.on_unmounted();
}

void Session::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_.load(); });
}

bool Session::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return ended_.load(); });
}

}  // namespace leat
