// SPDX-License-Identifier: Apache-2.0
// IoRing: reads through one io_uring; one thread collects the completions. The depth is bounded:
// beyond it read() returns false, and callers use threads.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace leat {

class IoRing {
 public:
  // Called once, on the ring's thread, with the system call's result or -errno. Must not block.
  using Completion = std::move_only_function<void(int)>;

  // Returns nothing if the kernel or a seccomp filter denies io_uring, or no thread can start.
  static std::unique_ptr<IoRing> create();
  // Waits up to 100 ms for reads in flight. The ring itself stays until all have ended, and so must
  // the memory that they read into.
  ~IoRing();

  enum class Issuer : uint8_t {
    // The submitting thread issues the read and continues it for each part that the disk delivers.
    // Best for a single part.
    kSubmitter,
    // A kernel worker thread waits for the whole read. Best beyond the kernel's read-ahead size.
    kWorker,
  };

  // Returns false if the ring is full; the caller keeps `completion` then.
  bool read(int fd, void* into, unsigned size, uint64_t offset, Completion& completion,
            Issuer issuer = Issuer::kSubmitter);

 private:
  struct State;
  explicit IoRing(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
};

}  // namespace leat
