// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged/changed_ranges.h"

#include <algorithm>
#include <utility>

namespace leat {

void ChangedRanges::Changes::add(const Changes& other) {
  size = std::min(size, other.size);
  if (granules.size() < other.granules.size()) granules.resize(other.granules.size());
  for (size_t at = 0; at < other.granules.size(); ++at) {
    if (other.granules[at]) granules[at] = true;
  }
}

void ChangedRanges::begin(Version version, uint64_t size) {
  version_ = std::move(version);
  changes_ = {.size = size};
}

void ChangedRanges::give_up() {
  gave_up_ = true;
  version_ = {};
  changes_ = {};
}

void ChangedRanges::note_write(uint64_t offset, uint64_t size) {
  if (gave_up_ || size == 0) return;
  const uint64_t first = std::min(offset / kGranuleBytes, kGranulesMax);
  // An end past the largest file is cut.
  const uint64_t last = size - 1 > std::numeric_limits<uint64_t>::max() - offset
                            ? kGranulesMax
                            : (offset + size - 1) / kGranuleBytes + 1;
  const uint64_t end = std::min(last, kGranulesMax);
  if (changes_.granules.size() < end) changes_.granules.resize(end);
  for (uint64_t at = first; at < end; ++at) changes_.granules[at] = true;
}

void ChangedRanges::note_size(uint64_t size) {
  changes_.size = std::min(changes_.size, size);
}

std::vector<ByteRange> ChangedRanges::unchanged() const {
  std::vector<ByteRange> ranges;
  const uint64_t size = std::min(changes_.size, kGranulesMax * kGranuleBytes);
  const std::vector<bool>& granules = changes_.granules;
  for (uint64_t at = 0; at < size;) {
    const uint64_t granule = at / kGranuleBytes;
    // The rest has no changes.
    uint64_t end = granule < granules.size() ? at + kGranuleBytes : size;
    end = std::min(end, size);
    const bool changed = granule < granules.size() && granules[granule];
    if (!changed && !ranges.empty() && ranges.back().end() == at) {
      ranges.back().size += end - at;
    } else if (!changed) {
      ranges.push_back({at, end - at});
    }
    at = end;
  }
  return ranges;
}

UnchangedRanges ChangedRanges::begin_save() {
  UnchangedRanges known;
  if (version_.known()) known = {version_, unchanged()};
  saving_ = std::exchange(changes_, {});
  return known;
}

void ChangedRanges::end_save(const std::optional<Version>& saved, uint64_t size) {
  const Changes before = std::exchange(saving_, {});
  if (gave_up_) return;
  if (saved) {
    version_ = *saved;
    changes_.size = std::min(changes_.size, size);
  } else {
    changes_.add(before);
  }
}

}  // namespace leat
