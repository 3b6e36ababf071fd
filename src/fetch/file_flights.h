// SPDX-License-Identifier: Apache-2.0
// FileFlights: the flights of one file version, ordered and never overlapping. Pure bookkeeping, no
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
    FlightPtr flight;  // null: nothing of this piece is in memory or under way
  };

  bool empty() const { return flights_.empty(); }
  // `range` cut where flights begin and end: in order and without gaps.
  std::vector<Piece> pieces(ByteRange range) const;
  // What of `range` is in no flight, in order.
  std::vector<ByteRange> gaps(ByteRange range) const;

  // May not overlap another one.
  void add(FlightPtr flight);
  // False when it is not here.
  bool remove(const FlightPtr& flight);
  void collect(std::vector<FlightPtr>& into) const;

 private:
  std::map<uint64_t, FlightPtr> flights_;  // by offset
};

}  // namespace leat
