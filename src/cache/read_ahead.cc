// SPDX-License-Identifier: Apache-2.0
#include "cache/read_ahead.h"

#include <algorithm>

namespace leat {
namespace {

// Reading a gap between two objects costs less than another request. The gap is mostly read next:
// several readers filled the segment, so the order is only nearly that of the names.
constexpr uint64_t kGapBytesMax = 512 * kKiB;
// Calls in flight for one directory; each occupies a disk thread while it submits.
constexpr int kUnderWayMax = 2;

struct OpenStretch {
  FilePairPtr files;
  uint64_t offset;
  uint64_t size;
};

Result<uint64_t> tell_disk(Disk& disk, const std::vector<OpenStretch>& stretches) {
  uint64_t cold = 0;
  for (const OpenStretch& stretch : stretches) {
    LEAT_TRY(uint64_t bytes,
             disk.read_ahead(stretch.files->data.fd(), stretch.offset, stretch.size));
    cold += bytes;
  }
  return cold;
}

}  // namespace

std::vector<Stretch> merge_stretches(std::vector<Stretch> stretches) {
  auto before = [](const Stretch& a, const Stretch& b) {
    return a.object != b.object ? a.object < b.object : a.offset < b.offset;
  };
  std::ranges::sort(stretches, before);
  std::vector<Stretch> merged;
  for (Stretch& next : stretches) {
    if (!merged.empty() && merged.back().object == next.object) {
      Stretch& last = merged.back();
      if (next.offset <= last.offset + last.size + kGapBytesMax) {
        last.size = std::max(last.offset + last.size, next.offset + next.size) - last.offset;
        continue;
      }
    }
    merged.push_back(std::move(next));
  }
  return merged;
}

Task<> read_ahead(std::shared_ptr<CacheDirectory> directory, std::vector<Stretch> stretches,
                  PageStore::AheadListener told) {
  if (directory->reading_ahead.fetch_add(1) >= kUnderWayMax || directory->closing) {
    directory->reading_ahead.fetch_sub(1);
    co_return;
  }
  std::vector<OpenStretch> open;
  for (const Stretch& stretch : merge_stretches(std::move(stretches))) {
    Result<FilePairPtr> files =
        co_await directory->descriptors.open(Context::background(), stretch.object);
    if (files) open.push_back({*std::move(files), stretch.offset, stretch.size});
  }
  Result<uint64_t> cold = 0;
  if (!open.empty()) {
    Disk* disk = directory->disk.get();
    cold = co_await directory->blocking([disk, &open] { return tell_disk(*disk, open); });
  }
  directory->reading_ahead.fetch_sub(1);
  if (told && cold) told(*cold);
}

}  // namespace leat
