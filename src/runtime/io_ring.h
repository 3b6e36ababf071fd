// SPDX-License-Identifier: Apache-2.0
// IoRing: reads through one io_uring, completions gathered by one thread. Depth is
// bounded: submitters past it are told so and use the blocking pool.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace leat {

class IoRing {
 public:
  // Called once, on the ring's thread, with the system call's result or -errno. Must not block.
  using Completion = std::move_only_function<void(int)>;

  // Nothing where the kernel or a seccomp filter refuses io_uring.
  static std::unique_ptr<IoRing> create();
  // Waits for what is under way.
  ~IoRing();

  enum class By : uint8_t {
    // The kernel comes back to the thread that submits for each part that the disk has brought:
    // best where that is one.
    kSubmitter,
    // A thread of the kernel's waits for all of it: best for more than the kernel reads ahead.
    kWorker,
  };

  // False when the ring is full; `completion` is then left with the caller.
  bool read(int fd, void* into, unsigned size, uint64_t offset, Completion& completion,
            By by = By::kSubmitter);

 private:
  IoRing() = default;
  bool submit(Completion& completion, const std::function<void(io_uring_sqe*)>& prepare);
  void gather();

  static constexpr unsigned kDepth = 256;

  io_uring ring_{};
  std::mutex submit_mutex_;  // leaf; the submission queue has one writer at a time
  std::atomic<unsigned> in_flight_ = 0;
  std::thread thread_;
};

}  // namespace leat
