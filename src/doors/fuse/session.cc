// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/session.h"

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

#include "base/whole_file.h"
#include "doors/fuse/connection/kernel_offer.h"
#include "doors/fuse/connection/mount_point.h"
#include "doors/fuse/operations.h"
#include "doors/fuse/request_mark.h"
#include "doors/fuse/thread_turns.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Sizes that measured best.
constexpr unsigned kRequestBytesMax = 1 << 20;
constexpr unsigned kSmallRequestBytesMax = 128 * 1024;  // of older kernels
constexpr unsigned kBackgroundRequestsMax = 64;
constexpr unsigned kRingDepth = 16;

// Buffer of one read(): the kernel requires room for the largest request with its headers, even if
// none comes.
constexpr size_t kRequestBufferBytes = kRequestBytesMax + 64 * 1024;
// Covers all requests but a long list of forgotten names, which is never resent anyway.
constexpr size_t kResidentBytes = 128 * 1024;
constexpr std::chrono::milliseconds kInitPatience = std::chrono::seconds(30);
const int kWakeSignal = SIGRTMIN;

Counter requests_again("leat_fuse_requests_again_total",
                       "Requests that a predecessor had not answered", "",
                       Stability::kExperimental);

// Last message of libfuse on this thread: it explains failures only in its log.
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

// An unescaped comma would end the option.
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

void want(fuse_conn_info* kernel, uint64_t capability, bool wanted) {
  if (wanted) {
    fuse_set_feature_flag(kernel, capability);
  } else {
    fuse_unset_feature_flag(kernel, capability);
  }
}

// After capability negotiation libfuse's `want` shows what was offered.
bool is_wanted(const fuse_conn_info* kernel, uint64_t capability) {
  return (kernel->want_ext & capability) != 0;
}

void agree_on_caching(const DoorState& door, fuse_conn_info* kernel) {
  // One READDIRPLUS beats one LOOKUP a name, also for programs that need no attributes.
  want(kernel, FUSE_CAP_READDIRPLUS, door.uses(FuseFeature::kReaddirplus));
  fuse_unset_feature_flag(kernel, FUSE_CAP_READDIRPLUS_AUTO);
  // A node is one version: its pages are never out of date.
  fuse_unset_feature_flag(kernel, FUSE_CAP_AUTO_INVAL_DATA);
  fuse_set_feature_flag(kernel, FUSE_CAP_EXPLICIT_INVAL_DATA);
  want(kernel, FUSE_CAP_PARALLEL_DIROPS, door.uses(FuseFeature::kParallelDirectories));
  want(kernel, FUSE_CAP_ASYNC_READ, door.uses(FuseFeature::kAsyncRead));
  fuse_set_feature_flag(kernel, FUSE_CAP_ASYNC_DIO);
  // A forgotten node cannot be found by its number alone.
  fuse_set_feature_flag(kernel, FUSE_CAP_NO_EXPORT_SUPPORT);
  // Replies are in memory: splicing them costs more than it saves.
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_READ);
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_WRITE);
  fuse_unset_feature_flag(kernel, FUSE_CAP_SPLICE_MOVE);
  // Bounds READ as well.
  kernel->max_write =
      door.uses(FuseFeature::kLargeRequests) ? kRequestBytesMax : kSmallRequestBytesMax;
  kernel->max_background = kBackgroundRequestsMax;
  kernel->congestion_threshold = kBackgroundRequestsMax * 3 / 4;
  kernel->time_gran = 1;
  const bool bounded = door.uses(FuseFeature::kRequestTimeout);
  const auto seconds = static_cast<uint16_t>(door.options.request_timeout.count());
  kernel->request_timeout = bounded ? seconds : uint16_t{0};
}

// Repeats the predecessor's INIT result, whatever this version would prefer.
void agree_as_before(fuse_conn_info* kernel, const DoorRecords::Agreement& before) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t feature = uint64_t{1} << bit;
    want(kernel, feature, (before.features & feature) != 0);
  }
  kernel->max_write = before.request_bytes_max;
}

void init(void* user, fuse_conn_info* kernel) {
  auto& door = *static_cast<DoorState*>(user);
  agree_on_caching(door, kernel);
  want(kernel, FUSE_CAP_NO_OPEN_SUPPORT, door.options.no_open && door.uses(FuseFeature::kNoOpen));
  const char* unwanted = nullptr;
  if (!door.options.passthrough || !door.uses(FuseFeature::kPassthrough)) {
    unwanted = kPassthroughNotWanted;
  } else if (is_wanted(kernel, FUSE_CAP_NO_OPEN_SUPPORT)) {
    unwanted = kPassthroughWithoutOpens;
  }
  if (unwanted != nullptr) {
    fuse_unset_feature_flag(kernel, FUSE_CAP_PASSTHROUGH);
    door.files.turn_off(unwanted);
  } else if (!fuse_set_feature_flag(kernel, FUSE_CAP_PASSTHROUGH)) {
    door.files.turn_off("the kernel does not offer it (it came with 6.9)");
  }
  if (door.taken_over) agree_as_before(kernel, *door.taken_over);
  door.no_open = is_wanted(kernel, FUSE_CAP_NO_OPEN_SUPPORT);
  {
    std::lock_guard lock(door.features_mutex);
    door.features.protocol_major = kernel->proto_major;
    door.features.protocol_minor = kernel->proto_minor;
    door.features.readdirplus = is_wanted(kernel, FUSE_CAP_READDIRPLUS);
    door.features.parallel_directory_operations = is_wanted(kernel, FUSE_CAP_PARALLEL_DIROPS);
    door.features.io_uring = door.options.io_uring && is_wanted(kernel, FUSE_CAP_OVER_IO_URING);
    door.features.no_open = door.no_open;
    door.features.request_bytes_max = kernel->max_write;
    door.wanted = kernel->want_ext;
  }
  door.initialised.set_value();
}

unsigned threads_of(const FuseDoorOptions& options) {
  return options.threads != 0 ? options.threads : std::max(2u, std::thread::hardware_concurrency());
}

Status no_init(const std::string& mountpoint) {
  return {StatusCode::kUnavailable,
          "the kernel did not begin to talk to the mount at " + mountpoint + " within 30 s"};
}

// fusermount3 reports this only on its standard error, so it is checked here.
bool needs_user_allow_other(const FuseDoorOptions& options) {
  if (!options.allow_other || ::geteuid() == 0) return false;
  if (::access("/dev/fuse", R_OK | W_OK) != 0) return false;
  return !says_user_allow_other(read_whole_file(kFuseConf).value_or(""));
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
  if (auto connected = session->connect(mountpoint); !connected) {
    session->ended_ = true;
    return error(connected.error());
  }
  door.backings.connect(session->fd());
  if (door.options.io_uring) {
    session->threads_.emplace_back([self = session.get()] { self->serve_ring(); });
    // INIT is queued as soon as the mount exists, so only a stuck kernel takes long.
    std::future<void> agreed = door.initialised.get_future();
    if (agreed.wait_for(kInitPatience) == std::future_status::ready) return session;
    force_unmount_path(mountpoint);
    return error(no_init(mountpoint));
  }
  if (auto agreed = session->agree(mountpoint); !agreed) {
    session->ended_ = true;
    return error(agreed.error());
  }
  // Before any request is taken, so that requests in flight here are not resent.
  if (door.taken_over) session->ask_again();
  const unsigned threads = threads_of(door.options);
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
  if (const int kept = door_.options.connection; kept >= 0) {
    copy = ::fcntl(kept, F_DUPFD_CLOEXEC, 3);
    at = fmt::format("/dev/fd/{}", copy);
  }
  if (fuse_session_mount(session_.get(), at.c_str()) == 0) return {};
  const int failed = errno;
  if (copy >= 0) ::close(copy);
  if (needs_user_allow_other(door_.options)) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("cannot mount at {} with allow_other: {} has no line "
                             "'user_allow_other', without which only root may; add it (sudo leat "
                             "doctor --fix does), or mount without --allow-other",
                             mountpoint, kFuseConf));
  }
  std::string text = fmt::format("cannot mount at {}: {}", mountpoint, last_words);
  if (failed == EPERM || failed == EACCES) {
    return error(StatusCode::kPermissionDenied,
                 text + "; mounting needs CAP_SYS_ADMIN or fusermount3, and /dev/fuse");
  }
  return error(StatusCode::kUnsupported, text + "; is /dev/fuse here, and may it be opened?");
}

// The kernel's first request is INIT. A successor replays its predecessor's INIT; that answer goes
// nowhere, since the kernel has no such request any more.
Result<> Session::agree(const std::string& mountpoint) {
  std::vector<std::byte> request;
  if (door_.taken_over) {
    request = door_.taken_over->request;
  } else {
    pollfd wanted{fd(), POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(kInitPatience / std::chrono::milliseconds(1))) != 1) {
      force_unmount_path(mountpoint);
      return error(no_init(mountpoint));
    }
    request.resize(kRequestBufferBytes);
    const ssize_t got = ::read(fd(), request.data(), request.size());
    if (got <= 0) return error(status_from_errno(errno, "cannot read from /dev/fuse"));
    request.resize(static_cast<size_t>(got));
  }
  // libfuse modifies the request in place.
  std::vector<std::byte> copy = request;
  dispatch(copy);
  std::future<void> agreed = door_.initialised.get_future();
  if (agreed.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("the kernel and libfuse do not agree at {}: {}", mountpoint, last_words));
  }
  std::lock_guard lock(door_.features_mutex);
  if (door_.taken_over) {
    door_.features.survives = door_.taken_over->resends;
    return {};
  }
  const Result<InitRequest> init = parse_init(request);
  const bool resends = init && init->offer.resend && door_.uses(FuseFeature::kResend);
  door_.features.survives = resends && door_.records.kept();
  return door_.records.note_agreement(
      {.request = std::move(request),
       .features = door_.wanted,
       .request_bytes_max = static_cast<uint32_t>(door_.features.request_bytes_max),
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

void Session::mute() {
  const File nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nowhere.fd(), fd());
}

void Session::serve_ring() {
  pthread_setname_np(pthread_self(), "leat-fuse");
  const unsigned threads = threads_of(door_.options);
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, threads);
  fuse_loop_cfg_set_idle_threads(config, threads);
  const int result = fuse_session_loop_mt(session_.get(), config);
  fuse_loop_cfg_destroy(config);
  if (result != 0) log::info("the session of a mount ended with {}", result);
  ended();
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
  if (last) ended();
}

void Session::answer_requests() {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kRequestBufferBytes);
  // The kernel does not fault in pages of a process that is being killed. A copy to a missing page
  // would be an error for the program, and the request would not be resent.
  std::memset(buffer.get(), 0, kResidentBytes);
  ::mlock(buffer.get(), kResidentBytes);
  ThreadTurns turns;
  while (!exiting_.load()) {
    const ssize_t got = ::read(fd(), buffer.get(), kRequestBufferBytes);
    if (got > 0) {
      dispatch({buffer.get(), static_cast<size_t>(got)});
      turns.served();
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
  if ((current_unique & kSentAgain) != 0) {
    requests_again.add();
    if (undo_unanswered(door_, current_unique)) return reply_done();
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
    log::warning("a request that came again could not be answered: {}", std::strerror(errno));
  }
}

void Session::ask_again() {
  struct {
    uint32_t length = 16;
    int32_t code = 7;  // FUSE_NOTIFY_RESEND, since 6.9
    uint64_t unique = 0;
  } wish;
  if (::write(fd(), &wish, sizeof wish) != sizeof wish) {
    log::warning("the kernel does not send again what was not answered: {}", std::strerror(errno));
  }
}

void Session::ended() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (!exiting_.load() && door_.options.on_unmounted) door_.options.on_unmounted();
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
