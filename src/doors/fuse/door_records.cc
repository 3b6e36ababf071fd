// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/door_records.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "doors/fuse/request_mark.h"
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
  uint32_t deed;
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

struct DoorRecords::Head {
  uint32_t agreed;  // 1: the fields below are complete
  uint32_t request_bytes;
  uint64_t features;
  uint32_t request_bytes_max;
  uint32_t resends;
  std::byte request[kRequestBytesMax];
  int32_t newest_backing;
  uint32_t zero;
  Server servers[kServers];  // the newest first
  Slot slots[kSlots];
};

DoorRecords::Head* DoorRecords::head() const {
  static_assert(kNodeHeadBytes + sizeof(Head) <= SharedRecords::kHeadBytes);
  return reinterpret_cast<Head*>(records_->head().data() + kNodeHeadBytes);
}

Result<> DoorRecords::note_agreement(const Agreement& agreement) {
  if (!kept()) return {};
  if (agreement.request.size() > kRequestBytesMax) {
    return error(StatusCode::kUnsupported, "the kernel's first request is too long to be kept");
  }
  Head& to = *head();
  to.request_bytes = static_cast<uint32_t>(agreement.request.size());
  to.features = agreement.features;
  to.request_bytes_max = agreement.request_bytes_max;
  to.resends = agreement.resends;
  std::ranges::copy(agreement.request, to.request);
  atomic(to.agreed).store(1, std::memory_order_release);
  return {};
}

std::optional<DoorRecords::Agreement> DoorRecords::agreement() const {
  if (!kept()) return std::nullopt;
  Head& from = *head();
  if (atomic(from.agreed).load() != 1 || from.request_bytes > kRequestBytesMax) return std::nullopt;
  return Agreement{.request = {from.request, from.request + from.request_bytes},
                   .features = from.features,
                   .request_bytes_max = from.request_bytes_max,
                   .resends = from.resends != 0};
}

std::vector<ProcessMark> DoorRecords::exchange_server(const ProcessMark& server) {
  std::vector<ProcessMark> before;
  if (!kept()) return before;
  Head& at = *head();
  for (const Server& one : at.servers) {
    if (one.pid != 0) before.push_back({one.pid, one.start_ticks, server.boot_id});
  }
  std::memmove(&at.servers[1], &at.servers[0], sizeof at.servers - sizeof at.servers[0]);
  at.servers[0] = {.pid = server.pid, .zero = 0, .start_ticks = server.start_ticks};
  return before;
}

void DoorRecords::note_backing(int32_t id) {
  if (kept()) atomic(head()->newest_backing).store(id, std::memory_order_release);
}

int32_t DoorRecords::newest_backing() const {
  return kept() ? atomic(head()->newest_backing).load() : 0;
}

DoorRecords::Doing::Doing(DoorRecords& all, uint64_t unique, Deed deed, NodeId node,
                          int32_t backing) {
  if (!all.kept() || unique == 0) return;
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
    atomic(slot.deed).store(static_cast<uint32_t>(deed), std::memory_order_release);
    slot_ = &slot;
    return;
  }
}

DoorRecords::Doing::~Doing() {
  if (slot_ == nullptr) return;
  atomic(slot_->deed).store(0, std::memory_order_relaxed);
  atomic(slot_->unique).store(0, std::memory_order_release);
}

std::vector<DoorRecords::Done> DoorRecords::collect_unanswered() {
  std::vector<Done> all;
  if (!kept()) return all;
  std::lock_guard lock(mutex_);
  for (Slot& slot : head()->slots) {
    const Done done{static_cast<Deed>(slot.deed), slot.node, slot.backing};
    if (slot.unique != 0 && done.deed != Deed::kNone) {
      unanswered_[slot.unique] = done;
      all.push_back(done);
    }
    slot = {};
  }
  return all;
}

void DoorRecords::watch_releases(bool on) {
  std::lock_guard lock(mutex_);
  watching_ = on;
  released_.clear();
}

bool DoorRecords::release_once(uint64_t unique) {
  if (!watching_.load() || unique == 0) return true;
  std::lock_guard lock(mutex_);
  return released_.insert(original_unique(unique)).second;
}

std::optional<DoorRecords::Done> DoorRecords::take_unanswered(uint64_t unique) {
  std::lock_guard lock(mutex_);
  auto found = unanswered_.find(original_unique(unique));
  if (found == unanswered_.end()) return std::nullopt;
  const Done done = found->second;
  unanswered_.erase(found);
  return done;
}

}  // namespace leat
