// SPDX-License-Identifier: Apache-2.0
// Does the successor of a killed FUSE daemon receive the requests that were in flight?
//
//   leat_bench_restart [--transport device|device-clone|ring] [--rounds N] [--period-ms N]
//       [--readers N] [--threads N] [--ring-buffers shared] [--ring-keeper] [--kick]
//       [--keep-clones] [--no-resend] [--overlap] [--cold-buffers] [--no-successor]
//       [--request-timeout SECONDS] [--service-us N]
//
// A supervisor mounts, holds the connection's descriptor, and kills the daemon again and again with
// SIGKILL while readers compare what they read. Needs root and, for the ring, the kernel's
// `enable_uring`, which it sets and restores. It never touches the mount itself: at the end it
// aborts the connection, so nothing hangs longer than the ten seconds that count as hung. Prints
// one JSON line.
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <new>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

#include "fuse_generation.h"

namespace leat::restart {
namespace {

constexpr int64_t kHungNs = 10'000'000'000;
constexpr const char* kEnableRing = "/sys/module/fuse/parameters/enable_uring";
volatile sig_atomic_t interrupted = 0;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// Thrown, so that the supervisor's destructor leaves no mount and no process behind.
[[noreturn]] void fail(const std::string& why) {
  throw std::runtime_error(errno == 0 ? why : why + ": " + std::strerror(errno));
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    const auto number = [&] { return std::atoi(value().c_str()); };
    if (name == "--transport") {
      const std::string kind = value();
      if (kind != "device" && kind != "device-clone" && kind != "ring") fail("transport " + kind);
      if (kind == "device-clone") options.transport = Transport::kDeviceClone;
      if (kind == "ring") options.transport = Transport::kRing;
    } else if (name == "--rounds") {
      options.rounds = number();
    } else if (name == "--period-ms") {
      options.period_ms = std::max(1, number());
    } else if (name == "--readers") {
      options.readers = std::clamp(number(), 1, kReadersMax);
    } else if (name == "--threads") {
      options.threads = std::clamp(number(), 1, kClonesMax);
    } else if (name == "--request-timeout") {
      options.request_timeout_s = number();
    } else if (name == "--service-us") {
      options.service_us = number();
    } else if (name == "--ring-buffers") {
      options.shared_buffers = value() == "shared";
    } else if (name == "--ring-keeper") {
      options.keeper = options.shared_buffers = true;
    } else if (name == "--keep-clones") {
      options.keep_clones = true;
    } else if (name == "--kick") {
      options.kick = true;
    } else if (name == "--no-resend") {
      options.resend = false;
    } else if (name == "--overlap") {
      options.overlap = true;
    } else if (name == "--cold-buffers") {
      options.cold_buffers = true;
    } else if (name == "--no-successor") {
      options.no_successor = true;
    } else {
      fail("unknown option " + name);
    }
  }
  return options;
}

// One timed operation; its errors are counted, except those of the abort at the very end.
template <typename Call>
auto timed(const Board& board, Reader& me, Call call) {
  const int64_t begin = now_ns();
  me.since_ns = begin;
  const auto result = call();
  const int error = result < 0 ? errno : 0;
  me.since_ns = 0;
  if (board.over) return result;
  me.longest_ns = std::max(me.longest_ns.load(), now_ns() - begin);
  ++me.operations;
  if (error > 0) ++me.errors[std::min(error, kErrnoMax - 1)];
  if (error > 0) sleep_ms(1);
  return result;
}

void read_forever(const Board& board, Reader& me, const std::string& root, uint32_t seed) {
  std::mt19937 random(seed);
  alignas(4096) static char data[wire::kReadBytes];
  while (!board.stop) {
    const uint32_t file = random() % wire::kFiles;
    const std::string path = root + "/f" + std::to_string(file);
    const int fd = timed(board, me, [&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
    if (fd < 0) continue;
    for (int i = 0; i < 3 && !board.stop; ++i) {
      const uint64_t offset = random() % (wire::kFileBytes / sizeof(data)) * sizeof(data);
      const ssize_t got = timed(board, me, [&] { return pread(fd, data, sizeof(data), offset); });
      for (ssize_t at = 0; at < got; at += 8) {
        uint64_t word;
        std::memcpy(&word, data + at, sizeof(word));
        if (word != wire::word_at(wire::kFirstNode + file, offset + at)) me.wrong += 8;
      }
      if (got >= 0 && got < ssize_t{sizeof(data)}) me.wrong += sizeof(data) - got;
    }
    timed(board, me, [&] { return close(fd); });
  }
}

// Runs `body` in a child that dies with the supervisor.
template <typename Body>
pid_t spawn(Body body) {
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  // Nothing may unwind into the parent's frames, whose destructor would unmount.
  [&]() noexcept { body(); }();
  _exit(0);
}

std::string exchange_file(const std::string& path, const std::string& value) {
  std::string old;
  std::ifstream(path) >> old;
  if (!value.empty()) std::ofstream(path) << value;
  return old;
}

// The connection's number is its device's minor; stat(2) would send a request to the daemon.
std::string connection_of(const std::string& root) {
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, from, at;
    fields >> id >> parent >> device >> from >> at;
    if (at == root) return device.substr(device.find(':') + 1);
  }
  return "";
}

class Supervisor {
 public:
  explicit Supervisor(const Options& options) : options_(options) { estate_.options = options; }
  ~Supervisor() { clean_up(); }

  int run() {
    prepare();
    daemon_ = start(true);
    for (int i = 0; i < 500 && !board_->serving; ++i) sleep_ms(10);
    for (int i = 0; i < options_.readers; ++i)
      readers_.push_back(spawn([&] { read_forever(*board_, board_->readers[i], root_, 7 + i); }));
    int rounds = 0;
    while (board_->serving && rounds < options_.rounds && !interrupted && !all_hang()) {
      sleep_ms(static_cast<int>(random_() % (2 * options_.period_ms)));
      replace();
      ++rounds;
    }
    if (options_.no_successor) await_end();
    const int hung = settle();
    report(rounds, hung);
    return 0;
  }

 private:
  void prepare() {
    setpriority(PRIO_PROCESS, 0, 5);
    void* shared =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("mmap");
    board_ = estate_.board = new (shared) Board{};
    char root[] = "/tmp/leat-restart-XXXXXX", control[] = "/tmp/leat-restart-XXXXXX";
    if (mkdtemp(root) == nullptr || mkdtemp(control) == nullptr) fail("mkdtemp");
    root_ = root;
    control_ = control;
    if (mount("none", control, "fusectl", 0, nullptr) != 0) fail("mount fusectl");
    if (options_.transport == Transport::kRing) old_enable_ = exchange_file(kEnableRing, "Y");
    estate_.device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string how =
        "fd=" + std::to_string(estate_.device) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    if (estate_.device < 0 || mount("leat-restart", root, "fuse.leat", MS_NOSUID, how.c_str()) != 0)
      fail("mount");
    connection_ = connection_of(root_);
    if (options_.keep_clones)
      for (int& clone : estate_.clones) clone = clone_device(estate_.device);
    if (options_.transport == Transport::kRing) prepare_ring();
  }

  void prepare_ring() {
    estate_.queues = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
    if (estate_.queues > kQueuesMax) fail("more cores than queues");
    if (!options_.shared_buffers) return;
    estate_.memory = memfd_create("slots", MFD_CLOEXEC);
    if (ftruncate(estate_.memory, sizeof(Slot) * estate_.queues * kDepth) != 0) fail("ftruncate");
    if (!options_.keeper) return;
    // The kernel's submission thread is one of this process, copies into its memory and outlives
    // every daemon; the daemons see the same rings through the mappings that they inherit.
    estate_.slots = map_slots(estate_.memory, estate_.queues);
    for (int queue = 0; queue < estate_.queues; ++queue) {
      io_uring_params params{};
      params.flags = IORING_SETUP_SQE128 | IORING_SETUP_SQPOLL;
      params.sq_thread_idle = 1;
      if (io_uring_queue_init_params(2 * kDepth, &estate_.rings[queue], &params) != 0)
        fail("io_uring");
    }
  }

  pid_t start(bool first) {
    return spawn([&] { Generation(estate_, first).serve(); });
  }

  void replace() {
    const pid_t old = daemon_;
    kill(old, SIGKILL);
    if (!options_.overlap) waitpid(old, nullptr, 0);
    daemon_ = options_.no_successor ? -1 : start(false);
    if (options_.overlap) waitpid(old, nullptr, 0);
    for (int core = 0; options_.kick && core < estate_.queues; ++core)
      kickers_.push_back(spawn([&] { kick(core); }));
  }

  // A queue's waiting requests move when one of its entries is committed; this is one more request
  // for that, after the successor had time to register. A name of its own, as the kernel lets equal
  // lookups wait for the first.
  void kick(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof(cores), &cores);
    sleep_ms(20);
    struct stat unused;
    stat((root_ + "/none" + std::to_string(getpid())).c_str(), &unused);
  }

  static bool hangs(const Reader& reader) {
    const int64_t since = reader.since_ns;
    return since != 0 && now_ns() - since > kHungNs;
  }

  bool all_hang() const {
    for (int i = 0; i < options_.readers; ++i)
      if (!hangs(board_->readers[i])) return false;
    return true;
  }

  // No daemon serves: time until the kernel ends the requests, if it does.
  void await_end() {
    const int64_t begin = now_ns();
    for (int i = 0; i < 900 && !interrupted && unanswered_ms_ < 0; ++i) {
      sleep_ms(100);
      for (int reader = 0; reader < options_.readers; ++reader)
        for (const auto& errors : board_->readers[reader].errors)
          if (errors > 0) unanswered_ms_ = (now_ns() - begin) / 1'000'000;
    }
  }

  // The daemon stays; every reader ends after the operation that it is in, or hangs. The second in
  // between is there so that the last restart's stalls count, too.
  int settle() {
    const int64_t end = now_ns() + kHungNs;
    sleep_ms(1000);
    board_->stop = true;
    while (!readers_.empty() && now_ns() < end && !interrupted) {
      std::erase_if(readers_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == pid; });
      sleep_ms(20);
    }
    board_->over = true;
    return static_cast<int>(readers_.size());
  }

  void report(int rounds, int hung) const {
    uint64_t operations = 0, wrong = 0;
    int64_t longest_ns = 0;
    std::array<uint64_t, kErrnoMax> errors{};
    for (int i = 0; i < options_.readers; ++i) {
      const Reader& reader = board_->readers[i];
      operations += reader.operations;
      wrong += reader.wrong;
      longest_ns = std::max(longest_ns, reader.longest_ns.load());
      for (int e = 0; e < kErrnoMax; ++e) errors[e] += reader.errors[e];
    }
    std::string by_errno;
    for (int e = 0; e < kErrnoMax; ++e)
      if (errors[e] > 0)
        by_errno += (by_errno.empty() ? "\"" : ", \"") + std::string(strerrorname_np(e)) +
                    "\": " + std::to_string(errors[e]);
    std::printf(
        "{\"rounds\": %d, \"operations\": %lu, \"resent\": %lu, \"redone\": %lu, "
        "\"refused_replies\": %lu, \"refused_commits\": %lu, \"dead_entries\": %lu, "
        "\"errors\": {%s}, \"wrong_bytes\": %lu, \"longest_stall_ms\": %.1f, \"hung\": %d, "
        "\"first_error_after_ms\": %ld}\n",
        rounds, operations, board_->resent.load(), board_->redone.load(),
        board_->refused_replies.load(), board_->refused_commits.load(), board_->dead_entries.load(),
        by_errno.c_str(), wrong, static_cast<double>(longest_ns) / 1e6, hung, unanswered_ms_);
    std::fflush(stdout);
  }

  void end_child(pid_t pid) {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    for (int i = 0; i < 250 && waitpid(pid, nullptr, WNOHANG) == 0; ++i) sleep_ms(20);
  }

  void clean_up() {
    if (!connection_.empty()) std::ofstream(control_ + "/" + connection_ + "/abort") << "1";
    end_child(daemon_);
    for (const pid_t pid : readers_) end_child(pid);
    for (const pid_t pid : kickers_) end_child(pid);
    umount2(root_.c_str(), MNT_DETACH);
    umount2(control_.c_str(), MNT_DETACH);
    rmdir(root_.c_str());
    rmdir(control_.c_str());
    if (!old_enable_.empty()) exchange_file(kEnableRing, old_enable_);
  }

  const Options options_;
  Estate estate_;
  Board* board_ = nullptr;
  std::string root_, control_, connection_, old_enable_;
  std::mt19937 random_{std::random_device{}()};
  pid_t daemon_ = -1;
  int64_t unanswered_ms_ = -1;
  std::vector<pid_t> readers_, kickers_;
};

}  // namespace
}  // namespace leat::restart

int main(int argc, char** argv) {
  using namespace leat::restart;
  signal(SIGINT, [](int) { interrupted = 1; });
  signal(SIGTERM, [](int) { interrupted = 1; });
  try {
    return Supervisor(parse(argc, argv)).run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "leat_bench_restart: %s\n", failure.what());
    return 1;
  }
}
