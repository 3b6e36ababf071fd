// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/passthrough_table.h"

#include <utility>

#include "base/check.h"
#include "telemetry/log.h"

namespace leat {

std::optional<PassthroughTable::BackingId> PassthroughTable::repeat(NodeId node) {
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto found = shard.nodes.find(node);
  if (found == shard.nodes.end()) return std::nullopt;
  ++found->second.opens;
  return found->second.id;
}

PassthroughTable::BackingId PassthroughTable::open(NodeId node,
                                                   std::shared_ptr<BackingFile> backing) {
  Status failure(StatusCode::kInternal, "");
  {
    Shard& shard = shard_of(node);
    std::lock_guard lock(shard.mutex);
    Entry& entry = shard.nodes[node];
    if (entry.opens++ > 0 || !backing || !on()) return entry.id;
    // Under the lock, so that two first opens cannot register two ids; one ioctl, which never
    // waits.
    Result<int> id = kernel_.add(backing->fd());
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
  if (for_good) turn_off(failure.to_string());
  return 0;
}

void PassthroughTable::release(NodeId node) {
  Entry last;
  {
    Shard& shard = shard_of(node);
    std::lock_guard lock(shard.mutex);
    auto found = shard.nodes.find(node);
    LEAT_CHECK(found != shard.nodes.end() && found->second.opens > 0);
    if (--found->second.opens > 0) return;
    last = std::move(found->second);
    shard.nodes.erase(found);
  }
  if (last.id == 0) return;
  kernel_.remove(last.id);
  passed_through_.fetch_sub(1, std::memory_order_relaxed);
}

void PassthroughTable::turn_off(std::string reason) {
  std::lock_guard lock(reason_mutex_);
  if (!on_.exchange(false)) return;
  log::info("files are read through the daemon, not by the kernel itself: {}", reason);
  off_reason_ = std::move(reason);
}

std::string PassthroughTable::off_reason() const {
  std::lock_guard lock(reason_mutex_);
  return off_reason_;
}

}  // namespace leat
