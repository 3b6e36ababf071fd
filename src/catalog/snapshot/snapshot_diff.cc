// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_diff.h"

#include "catalog/snapshot/snapshot_order.h"

namespace leat {
namespace {

class Side {
 public:
  Side(const Snapshot& snapshot, std::string_view directory)
      : cursor_(snapshot.below(directory)), prefix_(directory.empty() ? 0 : directory.size() + 1) {
    advance();
  }

  void advance() { there_ = cursor_ && cursor_->advance(); }
  bool there() const { return there_; }
  const SnapshotEntry& entry() const { return cursor_->entry(); }
  std::string_view path() const { return std::string_view(entry().path).substr(prefix_); }

 private:
  std::optional<Snapshot::Cursor> cursor_;
  size_t prefix_;
  bool there_ = false;
};

bool same(const SnapshotEntry& a, const SnapshotEntry& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == FileKind::kDirectory) return true;
  return a.size == b.size && a.version == b.version &&
         (a.version.known() || a.mtime_ns == b.mtime_ns);
}

}  // namespace

void diff_snapshots(const Snapshot& before, const Snapshot& after,
                    const SnapshotDifferenceListener& listener, std::string_view before_directory,
                    std::string_view after_directory) {
  using Kind = SnapshotDifference::Kind;
  Side old(before, before_directory), now(after, after_directory);
  for (bool more = true; more && (old.there() || now.there());) {
    std::strong_ordering order = std::strong_ordering::equal;
    if (!now.there()) {
      order = std::strong_ordering::less;
    } else if (!old.there()) {
      order = std::strong_ordering::greater;
    } else {
      order = compare_paths(old.path(), now.path());
    }
    if (order < 0) {
      more = listener({Kind::kRemoved, old.path(), &old.entry(), nullptr});
    } else if (order > 0) {
      more = listener({Kind::kAdded, now.path(), nullptr, &now.entry()});
    } else if (!same(old.entry(), now.entry())) {
      more = listener({Kind::kChanged, old.path(), &old.entry(), &now.entry()});
    }
    if (order <= 0) old.advance();
    if (order >= 0) now.advance();
  }
}

}  // namespace leat
