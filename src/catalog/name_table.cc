// SPDX-License-Identifier: Apache-2.0
#include "catalog/name_table.h"

namespace leat {
namespace {

constexpr size_t kNameBytesMax = 255;

}  // namespace

std::optional<WallTime> to_mtime(int64_t mtime_ns) {
  if (mtime_ns == kNoTime) return std::nullopt;
  return WallTime(std::chrono::nanoseconds(mtime_ns));
}

int64_t to_mtime_ns(const std::optional<WallTime>& mtime) {
  return mtime ? mtime->time_since_epoch().count() : kNoTime;
}

NameView NameView::of(const NameRecord& record) {
  NameView view;
  view.name = record.name;
  view.mtime_ns = record.mtime_ns;
  if (record.is_directory()) {
    view.kind = FileKind::kDirectory;
    return view;
  }
  view.size = record.ref->size;
  view.version = &record.ref->version;
  view.cache = record.ref->cache;
  return view;
}

bool same_content(const NameView& a, const NameView& b) {
  if (a.is_directory() || b.is_directory()) return a.kind == b.kind;
  if (a.size != b.size) return false;
  if (a.version == b.version) return true;
  // Without a version the time of change is all there is to compare.
  return *a.version == *b.version && (a.version->known() || a.mtime_ns == b.mtime_ns);
}

const char* reason_to_hide(std::string_view name) {
  if (name.empty()) return "a component of the key is empty ('//')";
  if (name == "." || name == "..") return "'.' and '..' have a meaning of their own";
  if (name.size() > kNameBytesMax) return "a name may have 255 bytes";
  if (name.find('\0') != name.npos) return "a name may not hold a NUL byte";
  if (name.find('/') != name.npos) return "the store put a deeper key into this directory";
  return nullptr;
}

void compare_names(const NameTable* before, const NameTable* after,
                   const NameChangeListener& listener) {
  std::unique_ptr<NameTable::Cursor> old = before != nullptr ? before->from(0) : nullptr;
  std::unique_ptr<NameTable::Cursor> now = after != nullptr ? after->from(0) : nullptr;
  bool has_old = old && old->next(), has_now = now && now->next();
  while (has_old || has_now) {
    if (!has_now || (has_old && old->view().name < now->view().name)) {
      listener(old->view().name, NameChange::kGone, old->view().is_directory());
      has_old = old->next();
    } else if (!has_old || now->view().name < old->view().name) {
      listener(now->view().name, NameChange::kAdded, false);
      has_now = now->next();
    } else {
      if (!same_content(old->view(), now->view())) {
        listener(old->view().name, NameChange::kChanged, old->view().is_directory());
      }
      has_old = old->next();
      has_now = now->next();
    }
  }
}

}  // namespace leat
