// SPDX-License-Identifier: Apache-2.0
// A position combines a place in the table and an index in `over`, so both are found again without
// counting.
#include "catalog/listing.h"

#include <fmt/format.h>

#include <algorithm>

namespace leat {
namespace {

constexpr unsigned kOverShift = 40;
constexpr uint64_t kNamesMask = (uint64_t{1} << kOverShift) - 1;

std::string_view name_of(const Listing::Over& over) {
  return over.entry.info.name;
}

NameView view_of(const CatalogEntry& entry) {
  NameView view;
  view.name = entry.info.name;
  view.kind = entry.info.kind;
  view.mtime_ns = to_mtime_ns(entry.info.mtime);
  if (!entry.ref) return view;
  view.size = entry.ref->size;
  view.version = &entry.ref->version;
  view.cache = entry.ref->cache;
  return view;
}

}  // namespace

std::shared_ptr<const Listing> Listing::of(std::vector<CatalogEntry> entries,
                                           Clock::time_point fresh_until, uint64_t left_out) {
  Parts parts{.fresh_until = fresh_until, .left_out = left_out};
  for (CatalogEntry& entry : entries) parts.over.push_back({std::move(entry)});
  return std::make_shared<const Listing>(std::move(parts));
}

uint64_t Listing::size_hint() const {
  return parts_.over.size() + (parts_.names ? parts_.names->size() : 0);
}

Listing::Cursor Listing::from(uint64_t position) const {
  std::unique_ptr<NameTable::Cursor> names;
  if (parts_.names) names = parts_.names->from(position & kNamesMask);
  return {*this, std::move(names), std::min(position >> kOverShift, parts_.over.size())};
}

Listing::Cursor Listing::after(std::string_view name) const {
  std::unique_ptr<NameTable::Cursor> names;
  if (parts_.names) names = parts_.names->after(name);
  auto over = std::ranges::upper_bound(parts_.over, name, {}, &name_of);
  return {*this, std::move(names), static_cast<size_t>(over - parts_.over.begin())};
}

Listing::Cursor::Cursor(const Listing& listing, std::unique_ptr<NameTable::Cursor> names,
                        size_t over)
    : parts_(&listing.parts_), names_(std::move(names)), over_(over) {}

void Listing::Cursor::look_ahead() {
  if (ahead_ || !names_) return;
  ahead_at_ = names_->position();
  ahead_ = names_->next();
}

bool Listing::Cursor::next() {
  const std::vector<Over>& over = parts_->over;
  for (;;) {
    look_ahead();
    if (over_ == over.size() || (ahead_ && names_->view().name < name_of(over[over_]))) {
      if (!ahead_) return false;
      ahead_ = from_over_ = false;
      view_ = names_->view();
      return true;
    }
    const Over& next = over[over_++];
    if (ahead_ && names_->view().name == name_of(next)) ahead_ = false;
    if (!next.shown) continue;
    from_over_ = true;
    view_ = view_of(next.entry);
    return true;
  }
}

CatalogEntry Listing::Cursor::entry() const {
  if (from_over_) return parts_->over[over_ - 1].entry;
  CatalogEntry entry;
  entry.info.name = view_.name;
  entry.info.kind = view_.kind;
  entry.info.size = view_.size;
  entry.info.mtime = to_mtime(view_.mtime_ns);
  entry.mount = parts_->mount;
  entry.fresh_until = parts_->names_fresh_until;
  entry.ref = names_->ref();
  if (view_.is_directory()) entry.directory_key = fmt::format("{}{}/", parts_->key, view_.name);
  return entry;
}

uint64_t Listing::Cursor::position() const {
  const uint64_t names = ahead_ ? ahead_at_ : names_ ? names_->position() : 0;
  return (static_cast<uint64_t>(over_) << kOverShift) | names;
}

}  // namespace leat
