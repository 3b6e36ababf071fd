// SPDX-License-Identifier: Apache-2.0
#include "catalog/spilled_names.h"

namespace leat {
namespace {

SnapshotHead head_of(StoreId store, std::string prefix) {
  SnapshotHead head;
  head.store = store;
  head.prefix = std::move(prefix);
  return head;
}

}  // namespace

SpilledNames::SpilledNames(const std::string& folder, StoreId store, std::string prefix,
                           DirectoryPolicy policy)
    : policy_(std::move(policy)),
      writer_(std::make_unique<SnapshotWriter>(SnapshotWriterOptions{.path = folder + "/names"},
                                               head_of(store, std::move(prefix)))) {}

Result<> SpilledNames::add(const NameTable& names) {
  SnapshotEntry entry;
  for (auto cursor = names.from(0); cursor->next();) {
    const NameView& view = cursor->view();
    entry.path = view.name;
    entry.kind = view.kind;
    entry.size = view.size;
    entry.version = view.version != nullptr ? *view.version : Version{};
    entry.mtime_ns.reset();
    if (view.mtime_ns != kNoTime) entry.mtime_ns = view.mtime_ns;
    // So that reading gives the same cache use.
    entry.local = !view.is_directory() &&
                  view.cache == cache_use(policy_.of_file(view.name).cache, /*local=*/true);
    LEAT_CHECK_OK(writer_->add(entry));
  }
  return {};
}

Result<std::shared_ptr<NameTable>> SpilledNames::finish(uint64_t skipped) {
  Result<SnapshotPtr> finished = writer_->finish_unnamed();
  writer_.reset();
  LEAT_TRY(SnapshotPtr snapshot, std::move(finished));
  skipped += snapshot->head().skipped;
  const StoreId store = snapshot->head().store;
  return SnapshotNameTable::of(std::move(snapshot), store, "", policy_, skipped);
}

}  // namespace leat
