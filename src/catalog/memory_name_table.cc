// SPDX-License-Identifier: Apache-2.0
#include "catalog/memory_name_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

bool name_less(const NameRecord& a, const NameRecord& b) {
  if (a.name != b.name) return a.name < b.name;
  return a.is_directory() && !b.is_directory();
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 80)) {
    auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > 80) out += "…";
  return out;
}

}  // namespace

class MemoryNameTable::Cursor : public NameTable::Cursor {
 public:
  Cursor(const std::vector<NameRecord>& records, size_t at)
      : records_(records), at_(std::min(at, records.size())) {}

  bool next() override {
    if (at_ == records_.size()) return false;
    view_ = NameView::of(records_[at_++]);
    return true;
  }
  const NameView& view() const override { return view_; }
  FileRefPtr ref() const override { return records_[at_ - 1].ref; }
  uint64_t position() const override { return at_; }

 private:
  const std::vector<NameRecord>& records_;
  size_t at_;
  NameView view_;
};

std::optional<FoundName> MemoryNameTable::find(std::string_view name) const {
  auto at = std::ranges::lower_bound(records_, name, {}, &NameRecord::name);
  if (at == records_.end() || at->name != name) return std::nullopt;
  return FoundName{*at, static_cast<uint64_t>(at - records_.begin())};
}

std::unique_ptr<NameTable::Cursor> MemoryNameTable::from(uint64_t position) const {
  return std::make_unique<Cursor>(records_, position);
}

std::unique_ptr<NameTable::Cursor> MemoryNameTable::after(std::string_view name) const {
  auto at = std::ranges::upper_bound(records_, name, {}, &NameRecord::name);
  return std::make_unique<Cursor>(records_, static_cast<size_t>(at - records_.begin()));
}

void MemoryNameTable::adopt(std::string_view name, FileRefPtr ref) {
  auto at = std::ranges::lower_bound(records_, name, {}, &NameRecord::name);
  LEAT_CHECK(at != records_.end() && at->name == name && ref->key.ends_with(name));
  at->name = std::string_view(ref->key).substr(ref->key.size() - name.size());
  at->ref = std::move(ref);
}

void MemoryNameTable::add_skipped(uint64_t count, std::string_view example) {
  skipped_ += count;
  if (skipped_example_.empty()) skipped_example_ = example;
}

NameTableBuilder::NameTableBuilder(StoreId store, std::string prefix, NameTablePtr known,
                                   DirectoryPolicy policy)
    : store_(store),
      prefix_(std::move(prefix)),
      known_(std::move(known)),
      policy_(std::move(policy)) {}

void NameTableBuilder::add_page(const ListPage& page) {
  const std::vector<SourceObject>& objects = page.objects;
  table_->add_skipped(page.skipped, page.skipped_example);
  size_t directory_bytes = 0;
  for (const SourceObject& object : objects) {
    if (object.kind == FileKind::kDirectory) directory_bytes += object.key.size();
  }
  // Reserved in full, since records point into it.
  auto names = std::make_unique<std::string>();
  names->reserve(directory_bytes);
  for (const SourceObject& object : objects) {
    if (object.kind == FileKind::kFile) {
      add_file(object);
      continue;
    }
    std::string_view name = object.key;
    if (name.ends_with('/')) name.remove_suffix(1);
    name.remove_prefix(std::min(prefix_.size(), name.size()));
    if (object.key == prefix_ || !may_show(object, name)) continue;
    size_t at = names->size();
    names->append(name);
    NameRecord record;
    record.name = std::string_view(*names).substr(at);
    record.mtime_ns = to_mtime_ns(object.mtime);
    table_->records_.push_back(std::move(record));
  }
  if (!names->empty()) table_->directory_names_.push_back(std::move(names));
}

void NameTableBuilder::add_file(const SourceObject& object) {
  // The marker of an empty directory is no entry.
  if (object.key.ends_with('/')) return;
  std::string_view name =
      std::string_view(object.key).substr(std::min(prefix_.size(), object.key.size()));
  if (!may_show(object, name)) return;
  NameRecord record;
  record.mtime_ns = to_mtime_ns(object.mtime);
  std::optional<NameRecord> before = known_ ? known_->find(name) : std::nullopt;
  const PathPolicy& policy = policy_.of_file(name);
  const CacheUse use = cache_use(policy.cache, object.local);
  if (before && !before->is_directory() && before->ref->version == object.version &&
      before->ref->size == object.size && before->ref->key == object.key &&
      before->ref->cache == use && before->ref->pool == policy.pool &&
      (object.version.known() || before->mtime_ns == record.mtime_ns)) {
    record.ref = before->ref;
  } else {
    record.ref = std::make_shared<const FileRef>(
        FileRef::make(store_, object.key, object.version, object.size, use, policy.pool));
  }
  record.name = std::string_view(record.ref->key).substr(prefix_.size());
  table_->records_.push_back(std::move(record));
}

bool NameTableBuilder::may_show(const SourceObject& object, std::string_view name) {
  const char* reason = reason_to_skip(name);
  if (reason == nullptr && !object.key.starts_with(prefix_)) {
    reason = "the store put a foreign key into this directory";
  }
  if (reason == nullptr) return true;
  table_->add_skipped(1, object.key);
  if (skipped_.count++ == 0) {
    skipped_.example = printable(object.key);
    skipped_.reason = reason;
  }
  return false;
}

std::shared_ptr<NameTable> NameTableBuilder::finish() {
  std::vector<NameRecord>& records = table_->records_;
  // Nearly always sorted already, except for a directory among names that begin with its own: "a!"
  // sorts before "a/", but after "a".
  if (!std::ranges::is_sorted(records, name_less)) std::ranges::sort(records, name_less);
  auto repeated = std::ranges::unique(records, {}, &NameRecord::name);
  if (!repeated.empty())
    table_->add_skipped(repeated.size(), prefix_ + std::string(repeated.begin()->name));
  records.erase(repeated.begin(), repeated.end());
  records.shrink_to_fit();
  return std::move(table_);
}

}  // namespace leat
