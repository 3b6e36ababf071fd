// SPDX-License-Identifier: Apache-2.0
#include "fetch/file_flights.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace leat {

std::vector<FileFlights::Piece> FileFlights::pieces(ByteRange range) const {
  std::vector<Piece> pieces;
  uint64_t at = range.offset;
  auto next = flights_.upper_bound(at);
  if (next != flights_.begin() && std::prev(next)->second->range.end() > at) --next;
  while (at < range.end()) {
    if (next == flights_.end() || next->first >= range.end()) {
      pieces.push_back({{at, range.end() - at}, nullptr});
      break;
    }
    const FlightPtr& flight = next->second;
    if (flight->range.offset > at) {
      pieces.push_back({{at, flight->range.offset - at}, nullptr});
      at = flight->range.offset;
    }
    uint64_t to = std::min(flight->range.end(), range.end());
    pieces.push_back({{at, to - at}, flight});
    at = to;
    ++next;
  }
  return pieces;
}

std::vector<ByteRange> FileFlights::gaps(ByteRange range) const {
  std::vector<ByteRange> gaps;
  for (const Piece& piece : pieces(range)) {
    if (piece.flight == nullptr) gaps.push_back(piece.range);
  }
  return gaps;
}

void FileFlights::add(FlightPtr flight) {
  auto next = flights_.lower_bound(flight->range.offset);
  LEAT_CHECK(!flight->range.empty());
  LEAT_CHECK(next == flights_.end() || next->first >= flight->range.end());
  LEAT_CHECK(next == flights_.begin() ||
             std::prev(next)->second->range.end() <= flight->range.offset);
  uint64_t offset = flight->range.offset;
  flights_.emplace_hint(next, offset, std::move(flight));
}

bool FileFlights::remove(const FlightPtr& flight) {
  auto found = flights_.find(flight->range.offset);
  if (found == flights_.end() || found->second != flight) return false;
  flights_.erase(found);
  return true;
}

void FileFlights::collect(std::vector<FlightPtr>& into) const {
  for (const auto& [offset, flight] : flights_) into.push_back(flight);
}

}  // namespace leat
