// SPDX-License-Identifier: Apache-2.0
// ArrivingBytes: memory that a store fills from its start, for those who wait for a part of it:
// each has its part when that has come. Thread-safe; one leaf lock, under which nobody is woken.
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
#include "runtime/shared_result.h"
#include "runtime/task.h"
#include "source/read_progress.h"

namespace leat {

class ArrivingBytes : public ArrivalListener {
 public:
  explicit ArrivingBytes(uint64_t size) : size_(size) {}

  // Makes the memory; once, and before anything of it can have come.
  std::span<std::byte> open();

  // What a source tells. That all has come land() alone says, since the source's own end may yet
  // bring a failure.
  void arrived(uint64_t bytes) override;
  uint64_t bytes() const override { return arrived_.load(std::memory_order_acquire); }
  // All of it has come.
  void land() { rise(size_); }
  // No more will. Those who wait for what has not come hear why; not after land().
  void fail(const Status& why);

  // Nothing where not all of the part has come.
  std::optional<Bytes> part(uint64_t offset, uint64_t size) const;
  // How many bytes have come: at least `least`, which is no more than there will be.
  Task<Result<uint64_t>> wait(Context context, uint64_t least, const char* what);

 private:
  using Wait = std::shared_ptr<SharedResult<bool>>;

  void rise(uint64_t bytes);

  const uint64_t size_;
  std::atomic<uint64_t> arrived_ = 0;  // written under the lock; the memory before it is final
  Bytes memory_;                       // set before anything has come
  mutable std::mutex mutex_;
  std::optional<Status> failure_;
  std::map<uint64_t, Wait> waits_;  // by what they wait for; all of it beyond `arrived_`
};

}  // namespace leat
