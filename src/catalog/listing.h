// SPDX-License-Identifier: Apache-2.0
// Listing: the names of a directory at one moment, sorted by their bytes. Entries are made on
// demand from the store's listing or a snapshot, with later answers and mounts laid over it.
// Immutable and thread-safe; holds references to its layers.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "catalog/catalog_entry.h"
#include "catalog/snapshot/name_table.h"

namespace leat {

class Listing {
 public:
  // An entry that replaces the table's entry of the same name; `shown` false hides it.
  struct Overlay {
    CatalogEntry entry;
    bool shown = true;
  };
  struct Layers {
    NameTablePtr names = {};  // may be null
    // For the table's entries.
    MountPtr mount = {};
    std::string key = {};  // of the directory
    Clock::time_point names_fresh_until = {};
    std::vector<Overlay> overlays = {};  // sorted by name, each name once
    Clock::time_point fresh_until = {};
    uint64_t skipped = 0;
  };

  explicit Listing(Layers layers) : layers_(std::move(layers)) {}
  // Returns this listing with further overlays, sorted by name; they win over the present ones.
  std::shared_ptr<const Listing> with(std::vector<Overlay> overlays) const;
  // Returns a listing of these entries alone, sorted by name.
  static std::shared_ptr<const Listing> of(std::vector<CatalogEntry> entries,
                                           Clock::time_point fresh_until, uint64_t skipped = 0);

  Clock::time_point fresh_until() const { return layers_.fresh_until; }
  // The mount of the names; null above all mounts.
  const MountPtr& mount() const { return layers_.mount; }
  // Number of keys in the store that cannot be shown as names or cannot be addressed.
  uint64_t skipped() const { return layers_.skipped; }
  // One of them, as the store writes it; empty if none is known.
  std::string_view skipped_example() const {
    return layers_.names ? layers_.names->skipped_example() : std::string_view();
  }
  // Upper estimate of the number of names.
  uint64_t size_hint() const;

  // Iterates over the entries; the listing must outlive it. Not thread-safe.
  class Cursor {
   public:
    // Moves to the next entry; returns false at the end.
    bool next();
    // The current entry, valid until the next call of next().
    const NameView& view() const { return view_; }
    CatalogEntry entry() const;
    // Position of the next entry, for from(). Below 2^62; constant within one listing.
    uint64_t position() const;

   private:
    friend class Listing;
    Cursor(const Listing& listing, std::unique_ptr<NameTable::Cursor> names, size_t overlay);
    void peek_name();

    const Listing::Layers* layers_;
    std::unique_ptr<NameTable::Cursor> names_;  // null without a table
    size_t next_overlay_;                       // index of the next one
    uint64_t peeked_at_ = 0;                    // position of the table's name that was read ahead
    bool peeked_ = false;                       // a name was read ahead and not shown yet
    bool from_overlay_ = false;
    NameView view_;
  };
  // 0: the beginning. Accepts any number; one that is not a position gives an arbitrary name.
  Cursor from(uint64_t position) const;
  // Begins at the first entry with a greater name.
  Cursor after(std::string_view name) const;

 private:
  const Layers layers_;
};
using ListingPtr = std::shared_ptr<const Listing>;

}  // namespace leat
