// SPDX-License-Identifier: Apache-2.0
// IoRing: reads through one io_uring, completions gathered by one thread. Depth is bounded:
// submitters past it are told so and use threads.
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

  // Nothing where the kernel or a seccomp filter refuses io_uring, or no thread can be started.
  static std::unique_ptr<IoRing> create();
  // Waits a moment for what is under way. The ring itself stays until all of it has ended, and so
  // must the memory that is read into.
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
  struct State;
  explicit IoRing(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
};

}  // namespace leat
