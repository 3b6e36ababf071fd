// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/open_files.h"

#include <utility>

#include "telemetry/log.h"

namespace leat {

OpenFiles::BackingId OpenFiles::open(std::shared_ptr<OpenFile> file) {
  const NodeId node = file->node();
  if (auto repeated = repeat(node)) return *repeated;
  std::shared_ptr<BackingFile> backing;
  if (passthrough_enabled()) backing = file->backing();
  Status failure(StatusCode::kInternal, "");
  {
    Shard& shard = shard_of(node);
    std::lock_guard lock(shard.mutex);
    Entry& entry = shard.nodes[node];
    if (entry.opens > 0) {
      entry.file->record_open(++entry.opens, entry.id);
      return entry.id;
    }
    entry.opens = 1;
    entry.file = std::move(file);
    // Damaged or evicted meanwhile: the invalidation looks here only afterwards.
    if (!backing || !passthrough_enabled() || !backing->current()) {
      entry.file->record_open(1, 0);
      return 0;
    }
    // Under the lock, so that two first opens cannot register two ids; one ioctl, which never
    // waits.
    Result<int> id = kernel_.add(backing->fd());
    entry.file->record_open(1, id.value_or(0));
    if (id) {
      entry.id = *id;
      entry.backing = std::move(backing);
      passed_through_.fetch_add(1, std::memory_order_relaxed);
      return entry.id;
    }
    failure = std::move(id).error();
  }
  const bool for_good =
      failure.code() == StatusCode::kPermissionDenied || failure.code() == StatusCode::kUnsupported;
  if (for_good) disable_passthrough(failure.to_string());
  return 0;
}

std::optional<OpenFiles::BackingId> OpenFiles::repeat(NodeId node) {
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto found = shard.nodes.find(node);
  if (found == shard.nodes.end()) return std::nullopt;
  Entry& entry = found->second;
  entry.file->record_open(++entry.opens, entry.id);
  return entry.id;
}

std::shared_ptr<OpenFile> OpenFiles::find(NodeId node) {
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto found = shard.nodes.find(node);
  return found == shard.nodes.end() ? nullptr : found->second.file;
}

OpenFiles::BackingId OpenFiles::backing_of(NodeId node) {
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto found = shard.nodes.find(node);
  return found == shard.nodes.end() ? 0 : found->second.id;
}

void OpenFiles::release(NodeId node) {
  Entry last;
  {
    Shard& shard = shard_of(node);
    std::lock_guard lock(shard.mutex);
    auto found = shard.nodes.find(node);
    if (found == shard.nodes.end()) return;
    Entry& entry = found->second;
    if (--entry.opens > 0) {
      entry.file->record_open(entry.opens, entry.id);
      return;
    }
    entry.file->record_open(0, 0);
    last = std::move(entry);
    shard.nodes.erase(found);
  }
  if (last.id == 0) return;
  kernel_.remove(last.id);
  passed_through_.fetch_sub(1, std::memory_order_relaxed);
}

void OpenFiles::take_over(ReopenedFile open) {
  const NodeId node = open.file->node();
  std::shared_ptr<BackingFile> backing;
  if (open.backing != 0) {
    backing = open.file->hold_backing();
    passed_through_.fetch_add(1, std::memory_order_relaxed);
  }
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  shard.nodes[node] = {.file = std::move(open.file),
                       .opens = open.opens,
                       .id = open.backing,
                       .backing = std::move(backing)};
}

void OpenFiles::disable_passthrough(std::string reason) {
  std::lock_guard lock(reason_mutex_);
  if (!passthrough_on_.exchange(false)) return;
  log::info("files are read through the daemon, not by the kernel itself: {}", reason);
  off_reason_ = std::move(reason);
}

std::string OpenFiles::off_reason() const {
  std::lock_guard lock(reason_mutex_);
  return off_reason_;
}

}  // namespace leat
