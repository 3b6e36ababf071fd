// SPDX-License-Identifier: Apache-2.0
// Invariant: a byte of a file version is in at most one flight of the table. A flight stays in it
// from its claim until it failed, or until its bytes were both offered to the page store and
// evicted.
#include "fetch/flight_table.h"

#include <algorithm>
#include <utility>

namespace leat {
namespace {

// Marks the blocks with their last byte in `part`, so that small sequential reads count each block
// once. Reads that the kernel sends out of order count alike.
bool mark_blocks(Flight& flight, ByteRange part) {
  const uint64_t blocks = align_up(flight.range.size, kBlockBytes) / kBlockBytes;
  if (flight.blocks_delivered == blocks) return false;
  flight.delivered.resize(blocks);
  const uint64_t first = (part.offset - flight.range.offset) / kBlockBytes;
  for (uint64_t block = first; block < blocks; ++block) {
    uint64_t end = std::min(flight.range.offset + (block + 1) * kBlockBytes, flight.range.end());
    if (end > part.end()) break;
    if (flight.delivered[block]) continue;
    flight.delivered[block] = true;
    ++flight.blocks_delivered;
  }
  return flight.blocks_delivered == blocks;
}

std::vector<ReadPart> parts_of(const FileFlights& flights, ByteRange range) {
  std::vector<ReadPart> parts;
  for (FileFlights::Piece& piece : flights.pieces(range)) {
    ReadPart part{.range = piece.range};
    if (piece.flight != nullptr) {
      const uint64_t offset = piece.range.offset - piece.flight->range.offset;
      if (auto arrived = piece.flight->buffer.slice(offset, piece.range.size)) {
        part.bytes = *std::move(arrived);
      } else {
        part.trace = piece.flight->trace;
      }
      part.reader = FlightReader(std::move(piece.flight));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

FlightTable::Lookup FlightTable::lookup(const FileId& id, ByteRange range) {
  Lookup lookup;
  Shard& of = shard(id);
  std::lock_guard lock(of.mutex);
  lookup.generation = of.generation;
  auto file = of.files.find(id);
  if (file == of.files.end()) {
    lookup.parts.push_back(ReadPart{.range = range});
    return lookup;
  }
  lookup.parts = parts_of(file->second, range);
  lookup.complete = std::ranges::all_of(lookup.parts, &ReadPart::in_memory);
  if (!lookup.complete) return lookup;
  for (const ReadPart& part : lookup.parts) {
    const FlightPtr& flight = part.reader.flight();
    if (mark_blocks(*flight, part.range)) lookup.fully_read.push_back(flight);
  }
  return lookup;
}

bool FlightTable::covers(const FileId& id, ByteRange range, uint64_t* generation) const {
  const Shard& of = shard(id);
  std::lock_guard lock(of.mutex);
  *generation = of.generation;
  auto file = of.files.find(id);
  return file != of.files.end() && file->second.gaps(range).empty();
}

uint64_t FlightTable::unclaimed_bytes(const FileId& id,
                                      const std::vector<ByteRange>& missing) const {
  const Shard& of = shard(id);
  std::lock_guard lock(of.mutex);
  auto file = of.files.find(id);
  uint64_t bytes = 0;
  for (const ByteRange& range : missing) {
    if (file == of.files.end()) {
      bytes += range.size;
      continue;
    }
    for (const ByteRange& gap : file->second.gaps(range)) bytes += gap.size;
  }
  return bytes;
}

std::optional<FlightTable::Claim> FlightTable::claim(const FileRefPtr& file, ByteRange wanted,
                                                     const std::vector<ByteRange>& missing,
                                                     std::optional<uint64_t> generation,
                                                     ClaimLimits limits) {
  Claim claim;
  Shard& of = shard(file->id);
  std::lock_guard lock(of.mutex);
  if (generation && *generation != of.generation) return std::nullopt;
  FileFlights& flights = of.files[file->id];
  for (const ByteRange& range : missing) {
    for (ByteRange gap : flights.gaps(range)) {
      while (!gap.empty() && claim.started.size() < limits.flights_max) {
        uint64_t size = std::min(gap.size, limits.flight_bytes_max);
        auto flight = std::make_shared<Flight>(file, ByteRange{gap.offset, size});
        flights.add(flight);
        claim.started.push_back(std::move(flight));
        gap = {gap.offset + size, gap.size - size};
      }
    }
  }
  if (!wanted.empty()) claim.parts = parts_of(flights, wanted);
  if (flights.empty()) of.files.erase(file->id);
  return claim;
}

void FlightTable::completed(const FlightPtr& flight) {
  std::shared_ptr<Trace> trace;  // freed after the lock is released
  Shard& of = shard(flight->file->id);
  std::lock_guard lock(of.mutex);
  trace.swap(flight->trace);
}

bool FlightTable::mark_delivered(const FlightPtr& flight, ByteRange part) {
  Shard& of = shard(flight->file->id);
  std::lock_guard lock(of.mutex);
  return mark_blocks(*flight, part);
}

void FlightTable::remove(const FlightPtr& flight) {
  Shard& of = shard(flight->file->id);
  std::lock_guard lock(of.mutex);
  auto file = of.files.find(flight->file->id);
  if (file == of.files.end() || !file->second.remove(flight)) return;
  ++of.generation;
  if (file->second.empty()) of.files.erase(file);
}

bool FlightTable::remove_unread(const FlightPtr& flight) {
  Shard& of = shard(flight->file->id);
  std::lock_guard lock(of.mutex);
  auto file = of.files.find(flight->file->id);
  // Readers join under this lock only.
  if (file == of.files.end() || flight->readers != 0 || !file->second.remove(flight)) return false;
  ++of.generation;
  if (file->second.empty()) of.files.erase(file);
  return true;
}

std::vector<FlightPtr> FlightTable::of(const FileId& id) const {
  std::vector<FlightPtr> flights;
  const Shard& of = shard(id);
  std::lock_guard lock(of.mutex);
  auto file = of.files.find(id);
  if (file != of.files.end()) file->second.collect(flights);
  return flights;
}

std::vector<FlightPtr> FlightTable::partial_within(const FileId& id,
                                                   const std::vector<ByteRange>& ranges) const {
  std::vector<FlightPtr> found;
  const Shard& of = shard(id);
  std::lock_guard lock(of.mutex);
  auto file = of.files.find(id);
  if (file == of.files.end()) return found;
  for (const ByteRange& range : ranges) {
    for (FileFlights::Piece& piece : file->second.pieces(range)) {
      if (piece.flight == nullptr || !piece.flight->has_partial_blocks()) continue;
      found.push_back(std::move(piece.flight));
    }
  }
  return found;
}

std::vector<FlightPtr> FlightTable::all() const {
  std::vector<FlightPtr> flights;
  for (const Shard& of : shards_) {
    std::lock_guard lock(of.mutex);
    for (const auto& [id, file] : of.files) file.collect(flights);
  }
  return flights;
}

size_t FlightTable::files() const {
  size_t count = 0;
  for (const Shard& of : shards_) {
    std::lock_guard lock(of.mutex);
    count += of.files.size();
  }
  return count;
}

}  // namespace leat
