// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/name_table.h"

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
  // Without a version, only the modification time can be compared.
  return *a.version == *b.version && (a.version->known() || a.mtime_ns == b.mtime_ns);
}

const char* reason_to_skip(std::string_view name) {
  if (name.empty()) return "a component of the key is empty ('//')";
  if (name == "." || name == "..") return "'.' and '..' have a meaning of their own";
  if (name.size() > kNameBytesMax) return "a name may have 255 bytes";
  if (name.find('\0') != name.npos) return "a name may not hold a NUL byte";
  if (name.find('/') != name.npos) return "the store put a deeper key into this directory";
  return nullptr;
}

}  // namespace leat
