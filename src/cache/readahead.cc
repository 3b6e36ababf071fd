// SPDX-License-Identifier: Apache-2.0
#include "cache/readahead.h"

#include <algorithm>

namespace leat {
namespace {

// Reading a gap between two objects costs less than another request. The gap is mostly read next:
// several readers filled the segment, so the order is only nearly that of the names.
constexpr uint64_t kGapBytesMax = 512 * kKiB;
// Calls in flight for one directory; each occupies a disk thread while it submits.
constexpr int kInFlightMax = 2;

struct OpenExtent {
  FilePairPtr files;
  uint64_t offset;
  uint64_t size;
};

Result<uint64_t> submit_to_disk(Disk& disk, const std::vector<OpenExtent>& extents) {
  uint64_t cold = 0;
  for (const OpenExtent& extent : extents) {
    LEAT_TRY(uint64_t bytes, disk.read_ahead(extent.files->data.fd(), extent.offset, extent.size));
    cold += bytes;
  }
  return cold;
}

}  // namespace

std::vector<FileExtent> merge_extents(std::vector<FileExtent> extents) {
  auto before = [](const FileExtent& a, const FileExtent& b) {
    return a.object != b.object ? a.object < b.object : a.offset < b.offset;
  };
  std::ranges::sort(extents, before);
  std::vector<FileExtent> merged;
  for (FileExtent& next : extents) {
    if (!merged.empty() && merged.back().object == next.object) {
      FileExtent& last = merged.back();
      if (next.offset <= last.offset + last.size + kGapBytesMax) {
        last.size = std::max(last.offset + last.size, next.offset + next.size) - last.offset;
        continue;
      }
    }
    merged.push_back(std::move(next));
  }
  return merged;
}

Task<> submit_readahead(std::shared_ptr<CacheDirectory> directory, std::vector<FileExtent> extents,
                        PageStore::ReadaheadListener listener) {
  if (directory->readaheads_in_flight.fetch_add(1) >= kInFlightMax || directory->closing) {
    directory->readaheads_in_flight.fetch_sub(1);
    co_return;
  }
  std::vector<OpenExtent> open;
  for (const FileExtent& extent : merge_extents(std::move(extents))) {
    Result<FilePairPtr> files =
        co_await directory->descriptors.open(Context::background(), extent.object);
    if (files) open.push_back({*std::move(files), extent.offset, extent.size});
  }
  Result<uint64_t> cold = 0;
  if (!open.empty()) {
    Disk* disk = directory->disk.get();
    cold = co_await directory->blocking([disk, &open] { return submit_to_disk(*disk, open); });
  }
  directory->readaheads_in_flight.fetch_sub(1);
  if (listener && cold) listener(*cold);
}

}  // namespace leat
