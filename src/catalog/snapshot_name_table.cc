// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot_name_table.h"

#include <algorithm>

namespace leat {

FileRefPtr make_file_ref(const Snapshot& snapshot, const StoreId& store, SnapshotEntry& entry,
                         const PathPolicy& policy) {
  if (entry.kind == FileKind::kDirectory) return nullptr;
  const SnapshotHead& head = snapshot.head();
  std::string key = std::move(entry.path);
  if (!head.prefix.empty()) key.insert(0, head.prefix);
  return std::make_shared<const FileRef>(
      FileRef::make(store, std::move(key), std::move(entry.version), entry.size,
                    cache_use(policy.cache, entry.local), policy.pool));
}

class SnapshotNameTable::Cursor : public NameTable::Cursor {
 public:
  Cursor(const SnapshotNameTable& table, uint64_t position)
      : table_(table), entries_(table.snapshot_->all()) {
    go_to(position);
  }

  bool next() override {
    if (below_ != 0) go_to(position());
    while (entries_.number() < table_.end_ && entries_.advance()) {
      const SnapshotEntry& entry = entries_.entry();
      std::string_view name = std::string_view(entry.path).substr(table_.prefix_.size());
      if (size_t slash = name.find('/'); slash != name.npos) {
        skip_child(name.substr(0, slash));
        continue;
      }
      view_.name = name;
      view_.kind = entry.kind;
      view_.size = entry.size;
      const bool directory = view_.is_directory();
      view_.version = directory ? nullptr : &entry.version;
      view_.mtime_ns = entry.mtime_ns.value_or(kNoTime);
      view_.cache = cache_use(table_.policy_.of_file(name).cache, entry.local);
      below_ = directory ? std::min(entry.below, table_.end_ - entries_.number()) : 0;
      return true;
    }
    return false;
  }
  const NameView& view() const override { return view_; }
  FileRefPtr ref() const override {
    SnapshotEntry entry = entries_.entry();
    return make_file_ref(*table_.snapshot_, table_.store_, entry,
                         table_.policy_.of_file(view_.name));
  }
  uint64_t position() const override { return entries_.number() + below_ - table_.first_; }

 private:
  void go_to(uint64_t position) {
    entries_.seek(table_.first_ + std::min(position, table_.size()));
    below_ = 0;
  }
  // The position lies inside of child `name`: skip all of it.
  void skip_child(std::string_view name) {
    const uint64_t here = entries_.number();
    const std::string path = table_.prefix_ + std::string(name);
    entries_.seek(table_.snapshot_->lower_bound(path));
    const bool found = entries_.advance() && entries_.entry().path == path;
    if (found) entries_.skip_below();
    if (entries_.number() < here) entries_.seek(here);  // never back, even in a corrupt file
  }

  const SnapshotNameTable& table_;
  Snapshot::Cursor entries_;
  uint64_t below_ = 0;  // entries below the current directory
  NameView view_;
};

std::shared_ptr<SnapshotNameTable> SnapshotNameTable::of(SnapshotPtr snapshot, const StoreId& store,
                                                         std::string_view directory,
                                                         DirectoryPolicy policy, uint64_t skipped) {
  std::optional<Snapshot::Cursor> below = snapshot->below(directory);
  if (!below) return nullptr;
  std::shared_ptr<SnapshotNameTable> table(new SnapshotNameTable());
  table->first_ = below->number();
  table->end_ = below->end();
  table->prefix_ = directory;
  if (!directory.empty()) table->prefix_ += '/';
  table->policy_ = std::move(policy);
  table->skipped_ = skipped;
  table->store_ = store;
  table->snapshot_ = std::move(snapshot);
  return table;
}

std::optional<FoundName> SnapshotNameTable::find(std::string_view name) const {
  if (reason_to_skip(name) != nullptr) return std::nullopt;
  std::optional<SnapshotEntry> entry = snapshot_->find(prefix_ + std::string(name));
  if (!entry) return std::nullopt;
  return FoundName{{name, make_file_ref(*snapshot_, store_, *entry, policy_.of_file(name)),
                    entry->mtime_ns.value_or(kNoTime)},
                   entry->number};
}

std::unique_ptr<NameTable::Cursor> SnapshotNameTable::from(uint64_t position) const {
  return std::make_unique<Cursor>(*this, position);
}

std::unique_ptr<NameTable::Cursor> SnapshotNameTable::after(std::string_view name) const {
  const std::string path = prefix_ + std::string(name);
  const uint64_t number = std::clamp(snapshot_->lower_bound(path), first_, end_);
  Snapshot::Cursor there = snapshot_->all();
  there.seek(number);
  uint64_t skipped = 0;
  if (number < end_ && there.advance() && there.entry().path == path) {
    skipped = 1 + there.entry().below;
  }
  return from(number - first_ + skipped);
}

}  // namespace leat
