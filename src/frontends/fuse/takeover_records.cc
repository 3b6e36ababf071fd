// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/takeover_records.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "frontends/fuse/request_id.h"
#include "vfs/node_record.h"

namespace leat {

struct Server {
  int32_t pid;  // 0: none
  uint32_t zero;
  uint64_t start_ticks;
};

// Free if `unique` is 0. Written by one thread, read by a successor.
struct Slot {
  uint64_t unique;
  uint64_t node;
  uint32_t operation;
  int32_t backing;
};

namespace {

// More than the number of request threads; if none is free, the request is not recorded.
constexpr size_t kSlots = 128;
constexpr size_t kRequestBytesMax = 256;
constexpr size_t kServers = 4;

template <class T>
std::atomic_ref<T> atomic(T& word) {
  return std::atomic_ref<T>(word);
}

}  // namespace

struct TakeoverRecords::Head {
  uint32_t init_recorded;  // 1: the fields below are complete
  uint32_t request_bytes;
  uint64_t features;
  uint32_t request_bytes_max;
  uint32_t resends;
  std::byte request[kRequestBytesMax];
  int32_t latest_backing;
  uint32_t zero;
  Server servers[kServers];  // the newest first
  Slot slots[kSlots];
};

TakeoverRecords::Head* TakeoverRecords::head() const {
  static_assert(kNodeHeadBytes + sizeof(Head) <= MemfdRecordTable::kHeadBytes);
  return reinterpret_cast<Head*>(records_->head().data() + kNodeHeadBytes);
}

Result<> TakeoverRecords::record_init_params(const InitParams& params) {
  if (!enabled()) return {};
  if (params.request.size() > kRequestBytesMax) {
    return error(StatusCode::kUnsupported, "the kernel's FUSE_INIT is too long to be recorded");
  }
  Head& to = *head();
  to.request_bytes = static_cast<uint32_t>(params.request.size());
  to.features = params.features;
  to.request_bytes_max = params.request_bytes_max;
  to.resends = params.resends;
  std::ranges::copy(params.request, to.request);
  atomic(to.init_recorded).store(1, std::memory_order_release);
  return {};
}

std::optional<TakeoverRecords::InitParams> TakeoverRecords::init_params() const {
  if (!enabled()) return std::nullopt;
  Head& from = *head();
  if (atomic(from.init_recorded).load() != 1 || from.request_bytes > kRequestBytesMax)
    return std::nullopt;
  return InitParams{.request = {from.request, from.request + from.request_bytes},
                    .features = from.features,
                    .request_bytes_max = from.request_bytes_max,
                    .resends = from.resends != 0};
}

std::vector<ProcessIdentity> TakeoverRecords::exchange_server(const ProcessIdentity& server) {
  std::vector<ProcessIdentity> before;
  if (!enabled()) return before;
  Head& at = *head();
  for (const Server& one : at.servers) {
    if (one.pid != 0) before.push_back({one.pid, one.start_ticks, server.boot_id});
  }
  std::memmove(&at.servers[1], &at.servers[0], sizeof at.servers - sizeof at.servers[0]);
  at.servers[0] = {.pid = server.pid, .zero = 0, .start_ticks = server.start_ticks};
  return before;
}

void TakeoverRecords::record_backing(int32_t id) {
  if (enabled()) atomic(head()->latest_backing).store(id, std::memory_order_release);
}

int32_t TakeoverRecords::latest_backing() const {
  return enabled() ? atomic(head()->latest_backing).load() : 0;
}

TakeoverRecords::InflightOp::InflightOp(TakeoverRecords& all, uint64_t unique, Operation operation,
                                        NodeId node, int32_t backing) {
  if (!all.enabled() || unique == 0) return;
  Head& head = *all.head();
  const size_t begin = std::hash<std::thread::id>()(std::this_thread::get_id());
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& slot = head.slots[(begin + i) % kSlots];
    uint64_t free = 0;
    // Node and operation are written before the work begins, and by no other thread. A successor
    // that finds the number without them undoes nothing.
    if (!atomic(slot.unique).compare_exchange_strong(free, original_unique(unique))) continue;
    atomic(slot.node).store(node, std::memory_order_relaxed);
    atomic(slot.backing).store(backing, std::memory_order_relaxed);
    atomic(slot.operation).store(static_cast<uint32_t>(operation), std::memory_order_release);
    slot_ = &slot;
    return;
  }
}

TakeoverRecords::InflightOp::~InflightOp() {
  if (slot_ == nullptr) return;
  atomic(slot_->operation).store(0, std::memory_order_relaxed);
  atomic(slot_->unique).store(0, std::memory_order_release);
}

std::vector<TakeoverRecords::UnansweredOp> TakeoverRecords::collect_unanswered() {
  std::vector<UnansweredOp> all;
  if (!enabled()) return all;
  std::lock_guard lock(mutex_);
  for (Slot& slot : head()->slots) {
    const UnansweredOp op{static_cast<Operation>(slot.operation), slot.node, slot.backing};
    if (slot.unique != 0 && op.operation != Operation::kNone) {
      unanswered_[slot.unique] = op;
      all.push_back(op);
    }
    slot = {};
  }
  return all;
}

void TakeoverRecords::deduplicate_releases(bool on) {
  std::lock_guard lock(mutex_);
  deduplicating_ = on;
  released_.clear();
}

bool TakeoverRecords::release_once(uint64_t unique) {
  if (!deduplicating_.load() || unique == 0) return true;
  std::lock_guard lock(mutex_);
  return released_.insert(original_unique(unique)).second;
}

std::optional<TakeoverRecords::UnansweredOp> TakeoverRecords::take_unanswered(uint64_t unique) {
  std::lock_guard lock(mutex_);
  auto found = unanswered_.find(original_unique(unique));
  if (found == unanswered_.end()) return std::nullopt;
  const UnansweredOp op = found->second;
  unanswered_.erase(found);
  return op;
}

}  // namespace leat
