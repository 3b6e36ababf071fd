// SPDX-License-Identifier: Apache-2.0
// One generation of the daemon that `fuse_restart.cc` kills: it serves the generated file system
// over the device or over io_uring, and takes over what the generation before it left behind.
// Everything that must outlive a generation lies in `Board` and in the slots, both shared memory.
#pragma once

#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "fuse_wire.h"

namespace leat::restart {

inline constexpr int kReadersMax = 64;
inline constexpr int kErrnoMax = 256;
inline constexpr int kQueuesMax = 64;
inline constexpr int kDepth = 16;
inline constexpr int kClonesMax = 8;
inline constexpr size_t kDeviceBytes = 64 << 10;
inline const auto kSlotsAddress = reinterpret_cast<void*>(0x600000000000);

enum class Transport { kDevice, kDeviceClone, kRing };

struct Options {
  Transport transport = Transport::kDevice;
  int rounds = 200;
  int period_ms = 50;
  int readers = 4;
  int threads = 3;
  int request_timeout_s = 0;
  int service_us = 0;           // between a request and its reply, so that deaths fall there
  bool shared_buffers = false;  // ring: payloads and headers outlive the generation
  bool keeper = false;          // ring: the supervisor's kernel thread submits, not the daemon
  bool keep_clones = false;     // device-clone: the supervisor holds the clones, too
  bool kick = false;            // one more request for each core after each restart
  bool resend = true;
  bool overlap = false;       // the successor starts before the killed daemon has ended
  bool cold_buffers = false;  // the daemon's pages are never mapped when the kernel needs them
  bool no_successor = false;  // the last daemon is killed without a successor
};

struct Reader {
  std::atomic<uint64_t> operations;
  std::atomic<uint64_t> wrong;
  std::atomic<int64_t> longest_ns;
  std::atomic<int64_t> since_ns;  // start of the operation in flight; 0 between two
  std::atomic<uint64_t> errors[kErrnoMax];
};

struct Board {
  std::atomic<bool> stop;     // readers end after the operation in flight
  std::atomic<bool> over;     // what fails from now on is the abort's doing
  std::atomic<bool> serving;  // the first generation has answered INIT and has its ring registered
  std::atomic<uint64_t> resent;
  std::atomic<uint64_t> refused_replies;  // the kernel did not know the request any more
  std::atomic<uint64_t> redone;           // delivered to one generation, answered by a later one
  std::atomic<uint64_t> refused_commits;
  std::atomic<uint64_t> dead_entries;  // completions other than a delivery or an unknown commit
  Reader readers[kReadersMax];
};

// One ring entry's memory. The kernel writes `header.commit_id` with each delivery; the daemon then
// takes the request into `saved` (whole once `saved_id` says so), because the reply overwrites it
// in place, and notes as `committed` what it has answered.
struct alignas(4096) Slot {
  wire::RingHeader header;
  wire::RingHeader saved;
  char saved_name[64];
  std::atomic<uint64_t> saved_id;
  std::atomic<uint64_t> submit_id;    // the reply about to be submitted, and the tail of the
  std::atomic<uint32_t> submit_tail;  // submission queue that will confirm it
  std::atomic<uint64_t> committed;
  alignas(4096) char payload[wire::kPayloadBytes];
};

inline Slot* map_slots(int memory_fd, int queues) {
  const size_t bytes = sizeof(Slot) * queues * kDepth;
  const int sharing = memory_fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* at = mmap(kSlotsAddress, bytes, PROT_READ | PROT_WRITE,
                  sharing | MAP_FIXED_NOREPLACE | MAP_POPULATE, memory_fd, 0);
  return at == kSlotsAddress ? static_cast<Slot*>(at) : nullptr;
}

// What the supervisor hands to every generation.
struct Estate {
  Options options;
  Board* board = nullptr;
  int device = -1;
  int queues = 1;
  int memory = -1;        // the slots' memory, -1: each generation has its own
  Slot* slots = nullptr;  // with a keeper: mapped already
  std::array<int, kClonesMax> clones{};
  std::array<io_uring, kQueuesMax> rings{};  // with a keeper
};

inline int clone_device(int device) {
  const int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  uint32_t original = device;
  if (clone < 0 || ioctl(clone, FUSE_DEV_IOC_CLONE, &original) != 0) _exit(3);
  return clone;
}

class Generation {
 public:
  Generation(Estate& estate, bool first)
      : estate_(estate), options_(estate.options), board_(*estate.board), first_(first) {}

  // Serves until the connection ends or the process is killed.
  void serve() {
    const bool ring = options_.transport == Transport::kRing;
    if (first_) serve_init();
    if (!first_ && options_.resend) resend();
    std::vector<std::thread> threads;
    if (ring && estate_.slots == nullptr) estate_.slots = map_slots(estate_.memory, estate_.queues);
    if (ring && estate_.slots == nullptr) _exit(3);
    for (int queue = 0; ring && queue < estate_.queues; ++queue)
      threads.emplace_back([this, queue] { serve_queue(queue); });
    // With a ring, FORGET and INTERRUPT still come over the device.
    for (int i = 0; i < (ring ? 1 : options_.threads); ++i)
      threads.emplace_back([this, i] { serve_device(device_of(i)); });
    if (!ring) board_.serving = true;
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int device_of(int thread) {
    if (options_.transport != Transport::kDeviceClone) return estate_.device;
    return options_.keep_clones ? estate_.clones[thread] : clone_device(estate_.device);
  }

  void work() const {
    if (options_.service_us > 0) usleep(options_.service_us);
  }

  void resend() {
    const fuse_out_header notice{sizeof(fuse_out_header), wire::kNotifyResend, 0};
    if (write(estate_.device, &notice, sizeof(notice)) != sizeof(notice)) _exit(3);
  }

  void serve_init() {
    std::vector<char> in(kDeviceBytes), out(kDeviceBytes);
    if (read(estate_.device, in.data(), in.size()) < 0) _exit(3);
    fuse_in_header header;
    std::memcpy(&header, in.data(), sizeof(header));
    if (header.opcode != FUSE_INIT) _exit(3);
    const uint64_t ring = options_.transport == Transport::kRing ? wire::kOverIoUring : 0;
    const wire::Reply reply =
        wire::answer_init(in.data() + sizeof(header), ring, options_.request_timeout_s, out.data());
    send(estate_.device, header.unique, reply, out.data());
  }

  void send(int device, uint64_t unique, const wire::Reply& reply, char* payload) {
    const auto payload_bytes = static_cast<size_t>(reply.payload_bytes);
    fuse_out_header header{static_cast<uint32_t>(sizeof(header) + payload_bytes), reply.error,
                           unique};
    const iovec parts[] = {{&header, sizeof(header)}, {payload, payload_bytes}};
    if (writev(device, parts, 2) < 0) ++board_.refused_replies;
  }

  // A descriptor's memory, so that dropping the mapping keeps what was written.
  static char* buffer() {
    const int memory = memfd_create("buffer", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, kDeviceBytes) != 0) _exit(3);
    void* at =
        mmap(nullptr, kDeviceBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);
    if (at == MAP_FAILED) _exit(3);
    return static_cast<char*>(at);
  }

  void serve_device(int device) {
    char* in = buffer();
    char* out = buffer();
    for (;;) {
      if (options_.cold_buffers) madvise(in, kDeviceBytes, MADV_DONTNEED);
      if (read(device, in, kDeviceBytes) < 0) {
        if (errno == ENODEV || errno == ECONNABORTED) return;
        continue;
      }
      fuse_in_header header;
      std::memcpy(&header, in, sizeof(header));
      if ((header.unique & wire::kUniqueResend) != 0) ++board_.resent;
      const char* op = in + sizeof(header);
      work();
      const wire::Reply reply = wire::answer(header, op, op, out);
      if (options_.cold_buffers) madvise(out, kDeviceBytes, MADV_DONTNEED);
      if (reply.payload_bytes >= 0) send(device, header.unique, reply, out);
    }
  }

  static io_uring_sqe* command(io_uring& ring, int device, uint32_t what, int queue, int slot,
                               uint64_t commit_id) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    if (sqe == nullptr) _exit(3);  // twice as many entries as slots
    std::memset(sqe, 0, 128);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = device;
    sqe->cmd_op = what;
    sqe->user_data = slot;
    const wire::RingCommand body{0, commit_id, static_cast<uint16_t>(queue), {}};
    std::memcpy(sqe->cmd, &body, sizeof(body));
    return sqe;
  }

  void enlist(io_uring& ring, int queue, int slot) {
    Slot& entry = slots_of(queue)[slot];
    // The kernel reads the vector while it takes the command, with a keeper in another process.
    auto* parts = reinterpret_cast<iovec*>(entry.payload);
    parts[0] = {&entry.header, sizeof(entry.header)};
    parts[1] = {entry.payload, sizeof(entry.payload)};
    io_uring_sqe* sqe = command(ring, estate_.device, wire::kRingRegister, queue, slot, 0);
    sqe->addr = reinterpret_cast<uint64_t>(parts);
    sqe->len = 2;
    io_uring_submit(&ring);
  }

  static void take(Slot& entry) {
    entry.saved = entry.header;
    std::memcpy(entry.saved_name, entry.payload, sizeof(entry.saved_name));
    entry.saved_id = entry.header.commit_id;
  }

  // Answers what was taken and fetches the next. `committed` is set after the submission: a death
  // in between makes the successor commit again, which the kernel refuses; the other order would
  // lose the request.
  void reply(io_uring& ring, int queue, int slot) {
    Slot& entry = slots_of(queue)[slot];
    const uint64_t id = entry.saved_id;
    fuse_in_header in;
    std::memcpy(&in, entry.saved.call, sizeof(in));
    const wire::Reply reply = wire::answer(in, entry.saved.op, entry.saved_name, entry.payload);
    const auto payload_bytes = static_cast<uint32_t>(std::max(0, reply.payload_bytes));
    const fuse_out_header out{static_cast<uint32_t>(sizeof(out)) + payload_bytes, reply.error,
                              in.unique};
    std::memcpy(entry.header.call, &out, sizeof(out));
    work();
    entry.header.payload_bytes = payload_bytes;
    command(ring, estate_.device, wire::kRingCommitAndFetch, queue, slot, id);
    entry.submit_tail = ring.sq.sqe_tail;
    entry.submit_id = id;
    io_uring_submit(&ring);
    entry.committed = id;
  }

  // Was this slot's request left without an answer? Without a keeper the completion queue died with
  // its daemon, so the header tells; nothing writes to it any more. With one, a delivery that
  // nobody took still comes as a completion, and a submitted reply may already have brought the
  // next request into the slot.
  bool left_unanswered(const io_uring& ring, Slot& entry) const {
    if (!options_.keeper) {
      if (entry.header.commit_id == entry.committed) return false;
      if (entry.saved_id != entry.header.commit_id) take(entry);
      return true;
    }
    if (entry.saved_id == entry.committed) return false;
    const bool submitted = entry.submit_id == entry.saved_id &&
                           static_cast<int32_t>(*ring.sq.ktail - entry.submit_tail) >= 0;
    if (submitted) entry.committed = entry.saved_id.load();
    return !submitted;
  }

  Slot* slots_of(int queue) { return estate_.slots + queue * kDepth; }

  // What the last generation was given and did not answer is answered first: the kernel looks a
  // commit up by its id alone, and the old entry then belongs to this process.
  void take_over(io_uring& ring, int queue) {
    for (int slot = 0; slot < kDepth; ++slot) {
      if (left_unanswered(ring, slots_of(queue)[slot])) {
        ++board_.redone;
        reply(ring, queue, slot);
      } else if (first_ || !options_.keeper) {
        enlist(ring, queue, slot);
      }
    }
  }

  // A kept ring may still hold replies that the dead daemon submitted, and at its head a completion
  // whose request that daemon had taken.
  void inherit(io_uring& ring, int queue) {
    const auto* head = reinterpret_cast<std::atomic<unsigned>*>(ring.sq.khead);
    while (*head != *ring.sq.ktail)
      io_uring_enter(ring.ring_fd, 0, 0, IORING_ENTER_SQ_WAKEUP, nullptr);
    ring.sq.sqe_head = ring.sq.sqe_tail = *ring.sq.ktail;
    io_uring_cqe* cqe = nullptr;
    if (io_uring_peek_cqe(&ring, &cqe) != 0) return;
    const Slot& entry = slots_of(queue)[cqe->user_data];
    if (entry.saved_id == entry.header.commit_id) io_uring_cqe_seen(&ring, cqe);
  }

  io_uring& ring_of(int queue, io_uring& own) {
    if (!options_.keeper) {
      io_uring_params params{};
      params.flags = IORING_SETUP_SQE128;
      if (io_uring_queue_init_params(2 * kDepth, &own, &params) != 0) _exit(3);
      return own;
    }
    if (!first_) inherit(estate_.rings[queue], queue);
    return estate_.rings[queue];
  }

  void serve_queue(int queue) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(queue, &core);
    sched_setaffinity(0, sizeof(core), &core);
    io_uring own{};
    io_uring& ring = ring_of(queue, own);
    take_over(ring, queue);
    if (++queues_ready_ == estate_.queues) board_.serving = true;
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      if (io_uring_wait_cqe(&ring, &cqe) != 0) continue;
      const int result = cqe->res;
      const auto slot = static_cast<int>(cqe->user_data);
      // Taken before the completion is given up: no death loses both.
      if (result == 0) take(slots_of(queue)[slot]);
      io_uring_cqe_seen(&ring, cqe);
      if (result == 0) {
        reply(ring, queue, slot);
      } else if (result == -ENOENT) {
        ++board_.refused_commits;
        if (!options_.keeper) enlist(ring, queue, slot);
      } else {
        ++board_.dead_entries;
        if (result == -ENOTCONN || result == -ECONNABORTED) return;
      }
    }
  }

  Estate& estate_;
  const Options& options_;
  Board& board_;
  const bool first_;
  std::atomic<int> queues_ready_ = 0;
};

}  // namespace leat::restart
