// SPDX-License-Identifier: Apache-2.0
// Flight: one range of one file version in flight from the store, and then its bytes in memory
// until they are evicted. Shared by the table, the eviction order, its own task and its readers;
// each field names the lock that guards it.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/buffer_pool.h"
#include "base/units.h"
#include "fetch/streaming_buffer.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "telemetry/trace_registry.h"

namespace leat {

struct Flight;
using FlightPtr = std::shared_ptr<Flight>;

// Memory of a cached range besides its buffer. It includes its Flight with what it owns, and its
// entries in table and eviction order. It also includes its file version, which may exist only for
// it. Measured with glibc and a key of 40 bytes: 1,200 (MemoryBudgetTest). The task and the trace
// of a range in flight are excluded: there are only as many of these as requests.
inline constexpr uint64_t kFlightBytes = 1536;

// Total memory of a range of `size` bytes; grows with the size.
inline uint64_t held_bytes(uint64_t size) {
  return buffer_memory_bytes(size) + kFlightBytes;
}

struct Flight {
  Flight(FileRefPtr of, ByteRange bytes) : file(std::move(of)), range(bytes), buffer(bytes.size) {}

  const FileRefPtr file;
  const ByteRange range;
  // Whether it begins or ends within a block. Such a block stays in memory.
  bool has_partial_blocks() const {
    return range.offset % kBlockBytes != 0 ||
           (range.end() % kBlockBytes != 0 && range.end() != file->size);
  }
  uint64_t held_bytes() const { return leat::held_bytes(range.size); }
  // The bytes, as they arrive; a reader gets its part when that has arrived.
  StreamingBuffer buffer;
  // Set when the page store has answered: always after all bytes have arrived, or when they never
  // will.
  const std::shared_ptr<SharedPromise<bool>> stored = SharedPromise<bool>::make();

  // A flight continues when its readers leave: the cache needs the bytes, and other readers may
  // come. One without waiters ends when the fetcher stops, or when its store has not answered for
  // `request_timeout`.
  std::stop_source cancel;
  std::atomic<unsigned> readers = 0;
  std::atomic<bool> cancel_when_unread = false;
  void cancel_if_unread() {
    if (cancel_when_unread && readers == 0) cancel.request_stop();
  }

  // For the task that cancels such flights: no reader waited at its last check.
  bool unread_before = false;

  // A reader uses it, or soon will; false if only a load needs it in the page store.
  std::atomic<bool> wanted = false;

  // Guarded by the table's lock of this file:
  // The trace of its request, for waiting readers; null once complete, when they have copies.
  std::shared_ptr<Trace> trace = trace_of_shared_work();
  std::vector<bool> delivered;  // per block: its last byte was delivered
  uint64_t blocks_delivered = 0;

  // Guarded by BufferCache:
  enum class CacheState : uint8_t { kInFlight, kUnread, kUnreadStored, kRead, kEvicted };
  CacheState state = CacheState::kInFlight;
  bool fully_read = false;  // every byte was delivered
  bool on_disk = false;     // the page store has it
  Clock::time_point inserted_at;
  std::list<FlightPtr>::iterator position;
};

// Counts a reader of a flight while it waits.
class FlightReader {
 public:
  FlightReader() = default;
  explicit FlightReader(FlightPtr flight) : flight_(std::move(flight)) { ++flight_->readers; }
  FlightReader(FlightReader&& other) noexcept : flight_(std::move(other.flight_)) {}
  FlightReader& operator=(FlightReader&& other) noexcept {
    std::swap(flight_, other.flight_);
    return *this;
  }
  ~FlightReader() {
    if (flight_ == nullptr) return;
    if (--flight_->readers == 0) flight_->cancel_if_unread();
  }

  explicit operator bool() const { return flight_ != nullptr; }
  const FlightPtr& flight() const { return flight_; }

 private:
  FlightPtr flight_;
};

}  // namespace leat
