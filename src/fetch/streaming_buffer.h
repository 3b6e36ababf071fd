// SPDX-License-Identifier: Apache-2.0
// StreamingBuffer: memory that a store fills from its start. A waiting reader gets its part as soon
// as that part has arrived. Thread-safe; one leaf lock, which is released before waiters are woken.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"
#include "source/read_progress.h"

namespace leat {

class StreamingBuffer : public ProgressListener {
 public:
  explicit StreamingBuffer(uint64_t size) : size_(size) {}

  // Allocates the memory; once, and before any byte can arrive.
  std::span<std::byte> open();

  // Called by the source with its progress. Only complete() reports the last byte, since the source
  // may still fail at its end.
  void on_bytes(uint64_t bytes) override;
  uint64_t bytes() const override { return arrived_.load(std::memory_order_acquire); }
  // All bytes have arrived.
  void complete() { advance(size_); }
  // No more bytes arrive: waiters for the rest get `why`. Not after complete().
  void fail(const Status& why);

  // Returns the part, or nothing if some of it has not arrived.
  std::optional<Bytes> slice(uint64_t offset, uint64_t size) const;
  // Waits until at least `least` bytes have arrived; returns how many have. `least` is at most the
  // size.
  Task<Result<uint64_t>> wait(Context context, uint64_t least, const char* what);

 private:
  using Wait = std::shared_ptr<SharedPromise<bool>>;

  void advance(uint64_t bytes);

  const uint64_t size_;
  std::atomic<uint64_t> arrived_ = 0;  // written under the lock; the memory before it is final
  Bytes memory_;                       // allocated before any byte arrives
  mutable std::mutex mutex_;
  std::optional<Status> failure_;
  std::map<uint64_t, Wait> waits_;  // by the number of bytes waited for, all beyond `arrived_`
};

}  // namespace leat
