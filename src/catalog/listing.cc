// SPDX-License-Identifier: Apache-2.0
// A position combines a place in the table and an index in `overlays`, so both are found again
// without counting.
#include "catalog/listing.h"

#include <fmt/format.h>

#include <algorithm>

namespace leat {
namespace {

constexpr unsigned kOverlayShift = 40;
constexpr uint64_t kNamesMask = (uint64_t{1} << kOverlayShift) - 1;

std::string_view name_of(const Listing::Overlay& overlay) {
  return overlay.entry.info.name;
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
                                           Clock::time_point fresh_until, uint64_t skipped) {
  Layers layers{.fresh_until = fresh_until, .skipped = skipped};
  for (CatalogEntry& entry : entries) layers.overlays.push_back({std::move(entry)});
  return std::make_shared<const Listing>(std::move(layers));
}

std::shared_ptr<const Listing> Listing::with(std::vector<Overlay> overlays) const {
  Layers layers = layers_;
  std::vector<Overlay> merged;
  std::ranges::set_union(overlays, layers_.overlays, std::back_inserter(merged), {}, &name_of,
                         &name_of);
  layers.overlays = std::move(merged);
  return std::make_shared<const Listing>(std::move(layers));
}

uint64_t Listing::size_hint() const {
  return layers_.overlays.size() + (layers_.names ? layers_.names->size() : 0);
}

Listing::Cursor Listing::from(uint64_t position) const {
  std::unique_ptr<NameTable::Cursor> names;
  if (layers_.names) names = layers_.names->from(position & kNamesMask);
  return {*this, std::move(names), std::min(position >> kOverlayShift, layers_.overlays.size())};
}

Listing::Cursor Listing::after(std::string_view name) const {
  std::unique_ptr<NameTable::Cursor> names;
  if (layers_.names) names = layers_.names->after(name);
  auto overlay = std::ranges::upper_bound(layers_.overlays, name, {}, &name_of);
  return {*this, std::move(names), static_cast<size_t>(overlay - layers_.overlays.begin())};
}

Listing::Cursor::Cursor(const Listing& listing, std::unique_ptr<NameTable::Cursor> names,
                        size_t overlay)
    : layers_(&listing.layers_), names_(std::move(names)), next_overlay_(overlay) {}

void Listing::Cursor::peek_name() {
  if (peeked_ || !names_) return;
  peeked_at_ = names_->position();
  peeked_ = names_->next();
}

bool Listing::Cursor::next() {
  const std::vector<Overlay>& overlays = layers_->overlays;
  for (;;) {
    peek_name();
    if (next_overlay_ == overlays.size() ||
        (peeked_ && names_->view().name < name_of(overlays[next_overlay_]))) {
      if (!peeked_) return false;
      peeked_ = from_overlay_ = false;
      view_ = names_->view();
      return true;
    }
    const Overlay& next = overlays[next_overlay_++];
    if (peeked_ && names_->view().name == name_of(next)) peeked_ = false;
    if (!next.shown) continue;
    from_overlay_ = true;
    view_ = view_of(next.entry);
    return true;
  }
}

CatalogEntry Listing::Cursor::entry() const {
  if (from_overlay_) return layers_->overlays[next_overlay_ - 1].entry;
  CatalogEntry entry;
  entry.info.name = view_.name;
  entry.info.kind = view_.kind;
  entry.info.size = view_.size;
  entry.info.mtime = to_mtime(view_.mtime_ns);
  entry.mount = layers_->mount;
  entry.fresh_until = layers_->names_fresh_until;
  entry.ref = names_->ref();
  if (view_.is_directory()) entry.directory_key = fmt::format("{}{}/", layers_->key, view_.name);
  return entry;
}

uint64_t Listing::Cursor::position() const {
  const uint64_t names = peeked_ ? peeked_at_ : names_ ? names_->position() : 0;
  return (static_cast<uint64_t>(next_overlay_) << kOverlayShift) | names;
}

}  // namespace leat
