// SPDX-License-Identifier: Apache-2.0
// Open addressing with linear probing. A removal moves later entries up, so no tombstones slow down
// searches.
#include "cache/packed/packed_index.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

constexpr size_t kFirstPlaces = 16;

}  // namespace

// The upper bits choose the place, so any table size works. Ids are hashes already.
size_t PackedIndex::home(const FileId& id) const {
  using Wide = unsigned __int128;
  return static_cast<size_t>(Wide{id.hash64()} * places_.size() >> 64);
}

size_t PackedIndex::seek(const FileId& id) const {
  size_t at = home(id);
  while (places_[at].taken() && places_[at].id != id) at = next(at);
  return at;
}

PackedIndex::Entry* PackedIndex::find(const FileId& id) {
  if (places_.empty()) return nullptr;
  Place& place = places_[seek(id)];
  return place.taken() ? &place.entry : nullptr;
}

void PackedIndex::put(const FileId& id, const Entry& entry) {
  LEAT_CHECK(entry.size != 0);
  if ((size_ + 1) * 5 > places_.size() * 4) grow();
  Place& place = places_[seek(id)];
  if (!place.taken()) ++size_;
  place = {id, entry};
}

bool PackedIndex::erase(const FileId& id) {
  if (places_.empty()) return false;
  const size_t at = seek(id);
  if (!places_[at].taken()) return false;
  vacate(at);
  return true;
}

// Moves up the entries that follow without a gap, unless one would come before its home.
void PackedIndex::vacate(size_t at) {
  const size_t count = places_.size();
  auto distance = [count](size_t from, size_t to) { return (to + count - from) % count; };
  size_t hole = at;
  for (size_t from = next(hole); places_[from].taken(); from = next(from)) {
    if (distance(home(places_[from].id), from) < distance(hole, from)) continue;
    places_[hole] = places_[from];
    hole = from;
  }
  places_[hole] = Place{};
  --size_;
}

void PackedIndex::grow() {
  std::vector<Place> before(std::max(kFirstPlaces, places_.size() + places_.size() / 2));
  before.swap(places_);
  for (const Place& place : before) {
    if (place.taken()) places_[seek(place.id)] = place;
  }
}

}  // namespace leat
