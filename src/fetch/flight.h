// SPDX-License-Identifier: Apache-2.0
// Flight: one range of one file version on its way from the store, and afterwards its bytes in
// memory for as long as they stay. Shared by the table, the memory order, its own task and its
// readers; each field says whose lock guards it.
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
#include "fetch/arriving_bytes.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "runtime/context.h"
#include "runtime/shared_result.h"
#include "telemetry/trace_desk.h"

namespace leat {

struct Flight;
using FlightPtr = std::shared_ptr<Flight>;

// What a range in memory takes beside its buffer: its Flight with what that owns, its places in
// table and order, and its file version, which may live for it alone. Measured with glibc and a key
// of 40 bytes: 1,200 (MemoryBudgetTest). What it has while it is under way, a task and a trace, is
// not in it: there are as many of those as requests.
inline constexpr uint64_t kFlightBytes = 1536;

// What a range of so many bytes takes in all; grows with it.
inline uint64_t held_bytes(uint64_t size) {
  return buffer_memory_bytes(size) + kFlightBytes;
}

struct Flight {
  Flight(FileRefPtr of, ByteRange bytes)
      : file(std::move(of)), range(bytes), arriving(bytes.size) {}

  const FileRefPtr file;
  const ByteRange range;  // starts at a block and ends at one or at the end of the file
  uint64_t held_bytes() const { return leat::held_bytes(range.size); }
  // The bytes, as they come; a reader has its part when that is there.
  ArrivingBytes arriving;
  // Set when the page store has answered, always after all of the bytes have come, or when they
  // will not.
  const std::shared_ptr<SharedResult<bool>> stored = SharedResult<bool>::make();

  // A flight goes on when its readers leave: the cache wants the bytes, and others may come. One
  // that nothing waits for is ended when the fetcher stops, or when its store has not answered for
  // `request_timeout`.
  std::stop_source cancel;
  std::atomic<unsigned> readers = 0;
  std::atomic<bool> ends_unwanted = false;
  void end_if_unwanted() {
    if (ends_unwanted && readers == 0) cancel.request_stop();
  }

  // Of the task that ends such flights: at its last check nothing waited for this one.
  bool unread_before = false;

  // Somebody reads it, or soon will: it is not only a load that wants it in the page store.
  std::atomic<bool> wanted = false;

  // Guarded by the table's lock of this file.
  // What happens to it, for those who wait; null once it has landed, when they have it themselves.
  std::shared_ptr<Trace> trace = trace_of_shared_work();
  std::vector<bool> handed_out;  // per block: a reader got its last byte
  uint64_t blocks_handed_out = 0;

  // Guarded by RecentRanges.
  enum class Place : uint8_t { kUnderWay, kUnread, kUnreadStored, kRead, kGone };
  Place place = Place::kUnderWay;
  bool read_through = false;  // every byte was handed out
  bool on_disk = false;       // the page store has it
  Clock::time_point settled_at;
  std::list<FlightPtr>::iterator position;
};

// A reader of a flight, counted for as long as it waits.
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
    if (--flight_->readers == 0) flight_->end_if_unwanted();
  }

  explicit operator bool() const { return flight_ != nullptr; }
  const FlightPtr& flight() const { return flight_; }

 private:
  FlightPtr flight_;
};

}  // namespace leat
