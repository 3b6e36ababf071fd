// SPDX-License-Identifier: Apache-2.0
// FileFlights: the flights of one file version, ordered and without overlap. Pure bookkeeping, no
// I/O. Not thread-safe: its table's lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "fetch/flight.h"

namespace leat {

class FileFlights {
 public:
  struct Piece {
    ByteRange range;
    FlightPtr flight;  // null: this piece is neither in memory nor in flight
  };

  bool empty() const { return flights_.empty(); }
  // Returns `range` cut at the borders of flights: in order and without gaps.
  std::vector<Piece> pieces(ByteRange range) const;
  // Returns the parts of `range` without a flight, in order.
  std::vector<ByteRange> gaps(ByteRange range) const;

  // Adds a flight, which may not overlap another one.
  void add(FlightPtr flight);
  // Returns false if the flight is not here.
  bool remove(const FlightPtr& flight);
  void collect(std::vector<FlightPtr>& into) const;

 private:
  std::map<uint64_t, FlightPtr> flights_;  // by offset
};

}  // namespace leat
