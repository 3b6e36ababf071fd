// SPDX-License-Identifier: Apache-2.0
// FlightTable: what of which file version is in memory or under way. The place where single flight
// is decided: a range is claimed under one lock, so two readers never fetch the same byte.
// Thread-safe; a lock per shard, leaf, never held while anything else is called.
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

// A part of a read. With bytes: they are there. With a reader and no bytes: to be waited for. With
// neither: not in memory, the page store is to be asked.
struct ReadPart {
  ByteRange range;
  Bytes bytes{};
  FlightReader reader{};
  std::shared_ptr<Trace> trace{};  // of what is waited for

  bool in_memory() const { return !bytes.empty(); }
  bool under_way() const { return bytes.empty() && reader; }
  bool elsewhere() const { return bytes.empty() && !reader; }
};

class FlightTable {
 public:
  struct Look {
    std::vector<ReadPart> parts;  // in order, without gaps
    // All of it came from memory and counts as handed out.
    bool complete = false;
    std::vector<FlightPtr> read_through;  // of these every byte has now been handed out
    // Changes when a flight leaves the table: what the page store said was missing before may have
    // become cached, and gone from memory, since.
    uint64_t generation = 0;
  };
  struct ClaimLimits {
    uint64_t flight_bytes_max;
    size_t flights_max;
  };
  struct Claim {
    std::vector<FlightPtr> started;  // the caller's to fly; others may wait for them already
    std::vector<ReadPart> parts;
  };

  Look look(const FileId& id, ByteRange range);
  // True when memory or flights cover all of `range`; hands nothing out.
  bool covers(const FileId& id, ByteRange range, uint64_t* generation) const;

  // Starts flights for what of `missing` is in none, and says where each part of `wanted` is to be
  // had. Nothing when `generation` is given and not the present one.
  std::optional<Claim> claim(const FileRefPtr& file, ByteRange wanted,
                             const std::vector<ByteRange>& missing,
                             std::optional<uint64_t> generation, ClaimLimits limits);

  // All of its bytes have come: those who wait have its trace, and nobody else will want it.
  void landed(const FlightPtr& flight);
  // `part` went to a reader; true when with it every byte of the flight has.
  bool handed_out(const FlightPtr& flight, ByteRange part);
  void remove(const FlightPtr& flight);
  // Removes it if nothing waits for it, so that nothing will; whether it did.
  bool remove_unread(const FlightPtr& flight);

  std::vector<FlightPtr> of(const FileId& id) const;
  std::vector<FlightPtr> all() const;
  // File versions with anything in memory or under way.
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
