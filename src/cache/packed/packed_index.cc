// SPDX-License-Identifier: Apache-2.0
// Open addressing with linear probing. A removal moves later entries up, so no tombstones slow down
// searches.
#include "cache/packed/packed_index.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

constexpr size_t kInitialBuckets = 16;

}  // namespace

// The upper bits choose the bucket, so any table size works. Ids are hashes already.
size_t PackedIndex::home(const FileId& id) const {
  using Wide = unsigned __int128;
  return static_cast<size_t>(Wide{id.hash64()} * buckets_.size() >> 64);
}

size_t PackedIndex::seek(const FileId& id) const {
  size_t at = home(id);
  while (buckets_[at].taken() && buckets_[at].id != id) at = next(at);
  return at;
}

PackedIndex::Entry* PackedIndex::find(const FileId& id) {
  if (buckets_.empty()) return nullptr;
  Bucket& bucket = buckets_[seek(id)];
  return bucket.taken() ? &bucket.entry : nullptr;
}

void PackedIndex::put(const FileId& id, const Entry& entry) {
  LEAT_CHECK(entry.size != 0);
  if ((size_ + 1) * 5 > buckets_.size() * 4) grow();
  Bucket& bucket = buckets_[seek(id)];
  if (!bucket.taken()) ++size_;
  bucket = {id, entry};
}

bool PackedIndex::erase(const FileId& id) {
  if (buckets_.empty()) return false;
  const size_t at = seek(id);
  if (!buckets_[at].taken()) return false;
  vacate(at);
  return true;
}

// Moves up the entries that follow without a gap, unless one would come before its home.
void PackedIndex::vacate(size_t at) {
  const size_t count = buckets_.size();
  auto distance = [count](size_t from, size_t to) { return (to + count - from) % count; };
  size_t hole = at;
  for (size_t from = next(hole); buckets_[from].taken(); from = next(from)) {
    if (distance(home(buckets_[from].id), from) < distance(hole, from)) continue;
    buckets_[hole] = buckets_[from];
    hole = from;
  }
  buckets_[hole] = Bucket{};
  --size_;
}

void PackedIndex::grow() {
  std::vector<Bucket> before(std::max(kInitialBuckets, buckets_.size() + buckets_.size() / 2));
  before.swap(buckets_);
  for (const Bucket& bucket : before) {
    if (bucket.taken()) buckets_[seek(bucket.id)] = bucket;
  }
}

}  // namespace leat
