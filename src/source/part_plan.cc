// SPDX-License-Identifier: Apache-2.0
#include "source/part_plan.h"

#include <algorithm>

#include "source/part_writer.h"

namespace leat {
namespace {

// Maximum size of a copied part. A store copies one at the speed of its disks, so that this many
// bytes take seconds; several are copied at a time.
constexpr uint64_t kCopiedBytesMax = 128 * kMiB;

// Cuts a range into equal parts of at most `most` bytes. Several have at least half of that.
void cut(ByteRange range, bool copied, uint64_t most, std::vector<PlannedPart>& parts) {
  if (range.empty()) return;
  const uint64_t count = (range.size + most - 1) / most;
  const uint64_t share = range.size / count;
  uint64_t at = range.offset;
  for (uint64_t left = count; left > 1; --left, at += share) {
    parts.push_back({{at, share}, copied});
  }
  parts.push_back({{at, range.end() - at}, copied});
}

// Removes what has to be sent, since it is too small to be a part, or stands beside such a range.
std::vector<ByteRange> copyable(const std::vector<ByteRange>& same, uint64_t size, uint64_t least) {
  std::vector<ByteRange> copied;
  uint64_t done = 0;  // end of the last copied range
  for (ByteRange range : same) {
    range = range.clamp(size);
    if (range.offset > done && range.offset - done < least) {
      const uint64_t from = std::min(done + least, range.end());
      range = {from, range.end() - from};
    }
    if (range.size < least) continue;
    copied.push_back(range);
    done = range.end();
  }
  return copied;
}

}  // namespace

std::vector<PlannedPart> plan_parts(const SourceCapabilities& store, uint64_t size,
                                    const std::vector<ByteRange>& same) {
  const uint64_t least = std::max<uint64_t>(store.part_bytes_min, PartWriter::kPartBytes);
  const uint64_t share = 2 * (size / store.parts_max + 1);
  const uint64_t sent_max = std::max(2 * least, share);
  const uint64_t copied_max = std::max(kCopiedBytesMax, share);
  std::vector<PlannedPart> parts;
  uint64_t done = 0;
  for (const ByteRange& range : copyable(same, size, least)) {
    cut({done, range.offset - done}, /*copied=*/false, sent_max, parts);
    cut(range, /*copied=*/true, copied_max, parts);
    done = range.end();
  }
  if (parts.empty()) return {};
  cut({done, size - done}, /*copied=*/false, sent_max, parts);
  if (parts.size() > store.parts_max) return {};
  return parts;
}

}  // namespace leat
