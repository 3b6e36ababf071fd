// SPDX-License-Identifier: Apache-2.0
// PackedIndex: the location of each packed object, by FileId. It holds millions of objects, so it
// is dense: 32 bytes a bucket, at most four fifths of the buckets used, growth by half. That is 40
// to 60 bytes an object beyond the initial size. Not thread-safe.
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

    // Range in the segment.
    ByteRange extent() const { return {page * kPageBytes, size}; }
    bool same_location(const Entry& other) const {
      return segment == other.segment && page == other.page;
    }
    // After a start, the later of two locations of one object counts.
    bool is_later_than(const Entry& other) const {
      return segment != other.segment ? segment > other.segment : page > other.page;
    }
  };
  static constexpr uint32_t kSizeMax = (1u << 30) - 1;

  // Returns null if there is none. The pointer is valid until the next change.
  Entry* find(const FileId& id);
  const Entry* find(const FileId& id) const {
    return const_cast<PackedIndex*>(this)->find(id);  // does not modify the table
  }
  // Adds or replaces an entry. Its size is not 0 and at most kSizeMax.
  void put(const FileId& id, const Entry& entry);
  // Returns false if there is none.
  bool erase(const FileId& id);
  // Calls `visit(id, entry)` for each entry; it must not change the index.
  template <class Visitor>
  void for_each(Visitor visit) const {
    for (const Bucket& bucket : buckets_) {
      if (bucket.taken()) visit(bucket.id, bucket.entry);
    }
  }
  // Erases the entries for which `leaves(entry)` is true.
  template <class Predicate>
  void erase_if(Predicate leaves);

  size_t size() const { return size_; }
  // Heap bytes of the table, for memory accounting.
  size_t heap_bytes() const { return buckets_.capacity() * sizeof(Bucket); }

 private:
  struct Bucket {
    FileId id;
    Entry entry;  // size 0: the bucket is free

    bool taken() const { return entry.size != 0; }
  };
  static_assert(sizeof(Bucket) == 32);

  size_t home(const FileId& id) const;
  size_t next(size_t at) const { return at + 1 == buckets_.size() ? 0 : at + 1; }
  // Returns the bucket of `id`, or the free bucket where it belongs. The table must not be empty.
  size_t seek(const FileId& id) const;
  void vacate(size_t at);
  void grow();

  std::vector<Bucket> buckets_;
  size_t size_ = 0;
};

// An entry that moves into a freed bucket comes from behind it, or from the start of the table
// after a wrap-around. So no entry is skipped.
template <class Predicate>
void PackedIndex::erase_if(Predicate leaves) {
  for (size_t at = 0; at < buckets_.size();) {
    if (buckets_[at].taken() && leaves(buckets_[at].entry)) {
      vacate(at);
    } else {
      ++at;
    }
  }
}

}  // namespace leat
