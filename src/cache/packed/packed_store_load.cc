// SPDX-License-Identifier: Apache-2.0
// PackedStore: load. Reads the indexes in segments/ one after the other, and nothing else. Segments
// of earlier runs are sealed; each run begins a new one.
#include <fcntl.h>
#include <fmt/format.h>

#include <charconv>

#include "cache/block_crc.h"
#include "cache/packed/packed_store.h"
#include "cache/packed/segment_index.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr size_t kIndexBytesMax = size_t{1} << 30;

struct Pair {
  std::optional<DirectoryItem> data, side;
};

std::optional<uint32_t> sequence_of(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix) || name.size() != 8 + suffix.size()) return std::nullopt;
  uint32_t sequence = 0;
  auto [end, failed] = std::from_chars(name.data(), name.data() + 8, sequence, 16);
  if (failed != std::errc() || end != name.data() + 8) return std::nullopt;
  return sequence;
}

}  // namespace

Result<> PackedStore::load(bool clean) {
  LEAT_CHECK_OK(directory_->disk->make_directory(directory_->path("segments")));
  LEAT_TRY(auto items, directory_->disk->list_directory(directory_->path("segments")));
  std::map<uint32_t, Pair> pairs;
  for (DirectoryItem& item : items) {
    if (auto of_data = sequence_of(item.name, ".data")) {
      pairs[*of_data].data = std::move(item);
    } else if (auto of_side = sequence_of(item.name, ".index")) {
      pairs[*of_side].side = std::move(item);
    } else {
      log::warning("cache {}: segments/{} does not belong to the cache and is ignored",
                   directory_->options.directory, item.name);
    }
  }
  TruncatedRecords truncated;
  for (const auto& [sequence, pair] : pairs) {
    next_sequence_ = sequence + 1;
    if (!pair.data || !pair.side) {
      discard_on_disk(sequence, "its other half is missing");
      continue;
    }
    Result<> loaded = load_segment(sequence, *pair.data, clean, truncated);
    if (loaded) continue;
    if (!lost_by_open(loaded.error())) {
      directory_->capacity->count(pair.data->allocated_bytes + pair.side->allocated_bytes);
      stranded_.insert(sequence);
      log::warning("cache {}: {} cannot be read and is ignored: {}", directory_->options.directory,
                   Segment::name(sequence, ""), loaded.error().to_string());
      continue;
    }
    directory_->report_corrupt(Segment::name(sequence, ""), loaded.error().to_string());
    discard_on_disk(sequence, loaded.error().to_string());
  }
  discard_dead_segments();
  note_lost(truncated);
  return {};
}

// Reports the lost objects once: after their tombstones the next start finds nothing to report.
void PackedStore::note_lost(const TruncatedRecords& truncated) {
  for (const auto& [id, lost] : truncated) {
    if (contains(id)) continue;
    directory_->report_corrupt(lost.key,
                               Segment::name(lost.place.segment, ".data") + " is cut short");
    queue_tombstone(id, lost.place);
  }
}

// Removes segments of dropped and moved objects only, unless they cover earlier ones.
void PackedStore::discard_dead_segments() {
  for (auto place = segments_.begin(); place != segments_.end();) {
    const Segment& segment = *place->second;
    if (segment.live_objects > 0 || covers_existing(segment)) {
      ++place;
      continue;
    }
    if (segment.covers_earlier) {  // after the segments it covers
      Result<> synced = directory_->disk->sync_directory(directory_->path("segments"));
      static_cast<void>(synced);
    }
    discard_on_disk(segment.sequence, "all of it was dropped");
    update_shards(segment.sequence, nullptr);
    place = segments_.erase(place);
  }
}

Result<> PackedStore::load_segment(uint32_t sequence, const DirectoryItem& data, bool clean,
                                   TruncatedRecords& truncated) {
  std::string index_name = Segment::name(sequence, ".index");
  LEAT_TRY(Buffer index, directory_->disk->read_file(directory_->path(index_name), kIndexBytesMax));
  auto header = SegmentHeader::decode(index.span());
  if (!header || header->sequence != sequence || header->directory != directory_->uuid) {
    return error(StatusCode::kCorrupt, "its index begins with the wrong header");
  }
  auto segment =
      std::make_shared<Segment>(sequence, data.modified_ns, directory_->pools.get(header->pool));
  segment->newest_ns = data.modified_ns;
  segment->sealed = segment->whole_pages = true;
  segment->write_buffer.mark_written(UINT64_MAX);
  segment->synced_bytes = UINT64_MAX;  // objects found on disk are verified by their first match
  segments_[sequence] = segment;
  update_shards(sequence, segment);
  SegmentIndex records(index.span());
  while (auto record = records.next()) {
    load_record(*record, *segment, data.size_bytes, truncated);
  }
  const size_t at = records.at();
  segment->index_bytes = at;
  std::vector<ByteRange> damaged = records.damaged();
  if (at < index.size() && clean) damaged.push_back({at, index.size() - at});
  if (!damaged.empty()) {
    count_damaged_index(*segment, total_bytes(damaged));
    Result<> mended = repair_on_disk(index_name, sequence, records.damaged());
    if (!mended) {
      log::warning("cache {}: {}", directory_->options.directory, mended.error().to_string());
    }
  }

  if (at < index.size()) set_length(index_name, index.size(), at);
  uint64_t data_bytes = data.allocated_bytes;
  if (data.size_bytes != segment->data_bytes) {
    set_length(Segment::name(sequence, ".data"), data.size_bytes, segment->data_bytes);
    data_bytes = std::min(data_bytes, segment->data_bytes);
  }
  segment->charge.count(data_bytes + align_up(at, kPageBytes) + kPageBytes);
  return {};
}

void PackedStore::load_record(const SegmentRecord& record, Segment& segment,
                              uint64_t data_file_bytes, TruncatedRecords& truncated) {
  const bool is_tombstone = record.kind == SegmentRecord::Kind::kTombstone;
  const Entry place{
      .segment = is_tombstone ? static_cast<uint32_t>(record.ref.size) : segment.sequence,
      .page = static_cast<uint32_t>(record.offset / kPageBytes),
      .crc = crc_of_crcs(record.crcs),
      .size = is_tombstone ? 0 : static_cast<uint32_t>(record.ref.size),
      .verified = false,
      .read = false};
  const uint64_t end = record.offset + align_up(record.ref.size, kPageBytes);
  const bool fits = record.ref.size > 0 && record.ref.size <= PackedIndex::kSizeMax &&
                    record.offset <= data_file_bytes &&
                    record.ref.size <= data_file_bytes - record.offset;
  if (!is_tombstone && !fits) {
    truncated[record.ref.id] = {place, record.ref.key};
    return;
  }
  if (is_tombstone) truncated.erase(record.ref.id);
  // Tombstones of older builds name no location and cover all earlier records.
  const bool names_location = !is_tombstone || place.segment != 0;
  auto& entries = shard(record.ref.id).entries;
  const Entry* found = entries.find(record.ref.id);
  if (is_tombstone) segment.covers_earlier = true;
  if (found != nullptr) {  // moved, written again, or dropped
    if (names_location && found->is_later_than(place)) return;
    auto before = segments_.find(found->segment);
    if (before != segments_.end()) {
      --before->second->live_objects;
      before->second->live_bytes -= static_cast<int64_t>(align_up(found->size, kPageBytes));
    }
    // Without this record the earlier copy would count again, even after this object is dropped.
    if (found->segment != segment.sequence) segment.covers_earlier = true;
    entries.erase(record.ref.id);
  }
  if (is_tombstone) return;
  segment.data_bytes = std::max(segment.data_bytes, end);
  count_live(segment, place);
  entries.put(record.ref.id, place);
}

// Replaces damaged records by one that names nothing, so that the next start finds no damage.
Result<> PackedStore::repair_on_disk(const std::string& index_name, uint32_t sequence,
                                     const std::vector<ByteRange>& damaged) {
  if (damaged.empty()) return {};
  LEAT_TRY(File file, directory_->disk->open(directory_->path(index_name), O_RDWR, 0));
  return overwrite_records(file.fd(), sequence, damaged);
}

// Sets the length of .data to whole pages and cuts a torn tail, which the last run never reported
// as durable. A failure loses nothing, since nothing is appended to a segment of an earlier run.
void PackedStore::set_length(const std::string& name, uint64_t from, uint64_t to) {
  log::info("cache {}: {} had {} bytes and gets {}", directory_->options.directory, name, from, to);

  Result<File> file = directory_->disk->open(directory_->path(name), O_RDWR, 0);
  Result<> done = file ? directory_->disk->truncate(file->fd(), to) : Error(file.error());
  if (!done) {
    log::warning("cache {}: {}", directory_->options.directory, done.error().to_string());
  }
}

void PackedStore::discard_on_disk(uint32_t sequence, const std::string& why) {
  log::info("cache {}: removing {}: {}", directory_->options.directory, Segment::name(sequence, ""),
            why);
  for (const char* suffix : {".index", ".data"}) {
    Result<> removed = directory_->disk->unlink(directory_->path(Segment::name(sequence, suffix)));
    if (removed || removed.error().code() == StatusCode::kNotFound) continue;
    stranded_.insert(sequence);
    log::warning("cache {}: {}", directory_->options.directory, removed.error().to_string());
  }
}

}  // namespace leat
