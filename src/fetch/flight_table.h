// SPDX-License-Identifier: Apache-2.0
// FlightTable: which ranges of which file versions are in memory or in flight. It enforces single
// flight: a range is claimed under one lock, so two readers never fetch the same byte. Thread-safe;
// one leaf lock per shard, never held during a call to another object.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "fetch/file_flights.h"
#include "fetch/flight.h"

namespace leat {

// A part of a read. With bytes: they have arrived. With a reader and no bytes: they are in flight.
// With neither: not in memory; check the page store.
struct ReadPart {
  ByteRange range;
  Bytes bytes{};
  FlightReader reader{};
  std::shared_ptr<Trace> trace{};  // of the request that is waited for

  bool in_memory() const { return !bytes.empty(); }
  bool in_flight() const { return bytes.empty() && reader; }
  bool not_in_memory() const { return bytes.empty() && !reader; }
};

class FlightTable {
 public:
  struct Lookup {
    std::vector<ReadPart> parts;  // in order, without gaps
    // All of it came from memory and counts as delivered.
    bool complete = false;
    std::vector<FlightPtr> fully_read;  // flights of which every byte is now delivered
    // Changes when a flight leaves the table: bytes that the page store lacked before may since
    // have been cached and evicted from memory.
    uint64_t generation = 0;
  };
  struct ClaimLimits {
    uint64_t flight_bytes_max;
    size_t flights_max;
  };
  struct Claim {
    std::vector<FlightPtr> started;  // for the caller to launch; others may wait already
    std::vector<ReadPart> parts;
  };

  Lookup lookup(const FileId& id, ByteRange range);
  // Returns true if memory or flights cover all of `range`; delivers nothing.
  bool covers(const FileId& id, ByteRange range, uint64_t* generation) const;

  // Returns the number of bytes of `missing` that are neither in memory nor in flight.
  uint64_t unclaimed_bytes(const FileId& id, const std::vector<ByteRange>& missing) const;

  // Starts flights for the bytes of `missing` without one, and returns where each part of `wanted`
  // is available. Returns nothing if `generation` is given and is not the present one.
  std::optional<Claim> claim(const FileRefPtr& file, ByteRange wanted,
                             const std::vector<ByteRange>& missing,
                             std::optional<uint64_t> generation, ClaimLimits limits);

  // All of its bytes have arrived: its trace is released, since the waiters have it.
  void completed(const FlightPtr& flight);
  // `part` was delivered to a reader. Returns true if every byte of the flight now has been.
  bool mark_delivered(const FlightPtr& flight, ByteRange part);
  void remove(const FlightPtr& flight);
  // Removes the flight if it has no readers, so that none can join. Returns whether it did.
  bool remove_unread(const FlightPtr& flight);

  std::vector<FlightPtr> of(const FileId& id) const;
  // Flights with bytes of `ranges` that have partial blocks.
  std::vector<FlightPtr> partial_within(const FileId& id,
                                        const std::vector<ByteRange>& ranges) const;
  std::vector<FlightPtr> all() const;
  // File versions with bytes in memory or in flight.
  size_t files() const;

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<FileId, FileFlights, IdHash> files;  // none of them empty
    uint64_t generation = 0;
  };

  Shard& shard(const FileId& id) { return shards_[id.bytes.back() % shards_.size()]; }
  const Shard& shard(const FileId& id) const { return shards_[id.bytes.back() % shards_.size()]; }

  std::array<Shard, 64> shards_;
};

}  // namespace leat
