// SPDX-License-Identifier: Apache-2.0
// PackedIndex: where each packed object lies, by FileId. There are millions, so it is dense: 32
// bytes a place, at most four fifths of the places taken, growing by half. That is 40 to 60 bytes
// an object once it has grown beyond its first size. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/capacity.h"
#include "model/byte_range.h"
#include "model/file_ref.h"

namespace leat {

class PackedIndex {
 public:
  struct Entry {
    uint32_t segment;
    uint32_t page;  // offset in the segment, in pages
    uint32_t crc;   // crc_of_crcs
    uint32_t size : 30;
    uint32_t verified : 1;  // matched in this process, after the segment was synced
    uint32_t read : 1;      // since it was written

    // In the segment.
    ByteRange extent() const { return {page * kPageBytes, size}; }
    bool same_place(const Entry& other) const {
      return segment == other.segment && page == other.page;
    }
    // Of two places of one object the later one counts after a start.
    bool is_later_than(const Entry& other) const {
      return segment != other.segment ? segment > other.segment : page > other.page;
    }
  };
  static constexpr uint32_t kSizeMax = (1u << 30) - 1;

  // Null where there is none; good until the next change.
  Entry* find(const FileId& id);
  const Entry* find(const FileId& id) const {
    return const_cast<PackedIndex*>(this)->find(id);  // changes nothing
  }
  // Its size is not 0 and at most kSizeMax. Takes the place of an earlier one.
  void put(const FileId& id, const Entry& entry);
  // False where there is none.
  bool erase(const FileId& id);
  // `look(id, entry)` of each; it changes nothing.
  template <class Look>
  void for_each(Look look) const {
    for (const Place& place : places_) {
      if (place.taken()) look(place.id, place.entry);
    }
  }
  // Those for which `leaves(entry)` is true.
  template <class Predicate>
  void erase_if(Predicate leaves);

  size_t size() const { return size_; }
  // Of the table, for whoever accounts for memory.
  size_t heap_bytes() const { return places_.capacity() * sizeof(Place); }

 private:
  struct Place {
    FileId id;
    Entry entry;  // of size 0: nobody's

    bool taken() const { return entry.size != 0; }
  };
  static_assert(sizeof(Place) == 32);

  size_t home(const FileId& id) const;
  size_t next(size_t at) const { return at + 1 == places_.size() ? 0 : at + 1; }
  // Where `id` is, or else the free place where it belongs. There must be places.
  size_t seek(const FileId& id) const;
  void vacate(size_t at);
  void grow();

  std::vector<Place> places_;
  size_t size_ = 0;
};

// What is moved into a place that becomes free comes from behind it, or from the beginning of the
// table where it had run over the end; so nothing is passed over.
template <class Predicate>
void PackedIndex::erase_if(Predicate leaves) {
  for (size_t at = 0; at < places_.size();) {
    if (places_[at].taken() && leaves(places_[at].entry)) {
      vacate(at);
    } else {
      ++at;
    }
  }
}

}  // namespace leat
