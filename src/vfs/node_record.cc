// SPDX-License-Identifier: Apache-2.0
#include "vfs/node_record.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "vfs/node_table.h"

namespace leat {
namespace {

// Changed in place: lookups, mtime, fresh_until and opens (with backing in its upper half).
struct Fixed {
  uint32_t kind;
  uint8_t node_kind;
  uint8_t version_kind;
  uint8_t cache;
  uint8_t key_ends_in_name;  // then the key is stored without the name
  uint64_t id;
  uint64_t parent;
  uint64_t lookups;
  int64_t fresh_until;  // of Clock
  uint64_t opens;
  uint64_t size;
  int64_t mtime;  // since the epoch of WallTime, in its units
  uint64_t pool;
  uint8_t store[16];
  uint16_t name_bytes;
  uint16_t key_bytes;
  uint16_t version_bytes;
  uint16_t mount_bytes;
};
static_assert(sizeof(Fixed) == 96);
static_assert(offsetof(Fixed, lookups) % 8 == 0 && offsetof(Fixed, opens) % 8 == 0);

struct Head {
  uint64_t numbers_reserved;
};
static_assert(sizeof(Head) <= kNodeHeadBytes);

struct Texts {
  std::string_view name, key, version, mount;

  uint64_t bytes() const { return name.size() + key.size() + version.size() + mount.size(); }
};

template <class T>
void store(T& word, T value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

Fixed& fixed_of(std::byte* data) {
  return *reinterpret_cast<Fixed*>(data);
}

Head& head_of(const MemfdRecordTable& records) {
  return *reinterpret_cast<Head*>(records.head().data());
}

Texts texts_of(const Node& node, const NodeFacts& facts, bool* key_ends_in_name) {
  Texts texts{.name = node.name, .key = facts.key, .version = {}, .mount = {}};
  if (facts.mount) texts.mount = facts.mount->entry.path;
  *key_ends_in_name = false;
  if (!node.ref) return texts;
  texts.version = node.ref->version.value;
  texts.key = node.ref->key;
  if (texts.key.ends_with(node.name)) {
    *key_ends_in_name = true;
    texts.key.remove_suffix(node.name.size());
  }
  return texts;
}

}  // namespace

NodeRecord::NodeRecord(MemfdRecordTable* records, const Node& node, const NodeFacts& facts)
    : records_(records) {
  if (records_ == nullptr) return;
  bool key_ends_in_name = false;
  const Texts texts = texts_of(node, facts, &key_ends_in_name);
  const uint64_t bytes = sizeof(Fixed) + texts.bytes();
  if (bytes <= MemfdRecordTable::kRecordBytesMax) {
    data_ = records_->allocate(static_cast<uint32_t>(bytes));
  }
  if (data_ == nullptr) return;
  Fixed& fixed = fixed_of(data_);
  fixed = {
      .kind = kNodeRecordKind,
      .node_kind = static_cast<uint8_t>(node.kind),
      .version_kind = node.ref ? static_cast<uint8_t>(node.ref->version.kind) : uint8_t{0},
      .cache = node.ref ? static_cast<uint8_t>(node.ref->cache) : uint8_t{0},
      .key_ends_in_name = key_ends_in_name,
      .id = node.id,
      .parent = node.parent ? node.parent->id : 0,
      .lookups = 1,
      .fresh_until = facts.fresh_until.time_since_epoch().count(),
      .opens = 0,
      .size = node.ref ? node.ref->size : 0,
      .mtime = facts.mtime ? facts.mtime->time_since_epoch().count() : kNoTime,
      .pool = node.ref ? static_cast<uint64_t>(node.ref->pool) : 0,
      .store = {},
      .name_bytes = static_cast<uint16_t>(texts.name.size()),
      .key_bytes = static_cast<uint16_t>(texts.key.size()),
      .version_bytes = static_cast<uint16_t>(texts.version.size()),
      .mount_bytes = static_cast<uint16_t>(texts.mount.size()),
  };
  if (node.ref) std::ranges::copy(node.ref->store.bytes, fixed.store);
  std::byte* at = data_ + sizeof(Fixed);
  for (std::string_view text : {texts.name, texts.key, texts.version, texts.mount}) {
    at = std::ranges::copy(std::as_bytes(std::span(text)), at).out;
  }
  records_->publish(data_);
}

NodeRecord::NodeRecord(MemfdRecordTable* records, std::span<std::byte> found)
    : records_(records), data_(found.data()) {}

NodeRecord::~NodeRecord() {
  if (data_ != nullptr) records_->free(data_);
}

NodeRecord::NodeRecord(NodeRecord&& other) noexcept
    : records_(other.records_), data_(std::exchange(other.data_, nullptr)) {}

NodeRecord& NodeRecord::operator=(NodeRecord&& other) noexcept {
  std::swap(records_, other.records_);
  std::swap(data_, other.data_);
  return *this;
}

void NodeRecord::set_lookups(uint64_t lookups) const {
  if (data_ != nullptr) store(fixed_of(data_).lookups, lookups);
}

void NodeRecord::set_facts(const NodeFacts& facts) const {
  if (data_ == nullptr) return;
  Fixed& fixed = fixed_of(data_);
  const size_t before = sizeof(Fixed) + fixed.name_bytes + fixed.key_bytes + fixed.version_bytes;
  const std::string_view recorded(reinterpret_cast<const char*>(data_) + before, fixed.mount_bytes);
  const std::string_view mount =
      facts.mount ? std::string_view(facts.mount->entry.path) : std::string_view();
  const Clock::time_point until = mount == recorded ? facts.fresh_until : Clock::time_point::min();
  store(fixed.mtime, facts.mtime ? facts.mtime->time_since_epoch().count() : kNoTime);
  store(fixed.fresh_until, static_cast<int64_t>(until.time_since_epoch().count()));
}

void NodeRecord::set_open(uint32_t opens, int32_t backing) const {
  if (data_ == nullptr) return;
  const uint64_t word = uint64_t{static_cast<uint32_t>(backing)} << 32 | opens;
  store(fixed_of(data_).opens, word);
}

NodeId NodeRecord::id_in(std::span<const std::byte> record) {
  Fixed fixed;
  if (record.size() < sizeof fixed) return 0;
  std::memcpy(&fixed, record.data(), sizeof fixed);
  return fixed.kind == kNodeRecordKind ? fixed.id : 0;
}

std::optional<RecordedNode> NodeRecord::read(std::span<const std::byte> record) {
  Fixed fixed;
  if (record.size() < sizeof fixed) return std::nullopt;
  std::memcpy(&fixed, record.data(), sizeof fixed);
  if (fixed.kind != kNodeRecordKind) return std::nullopt;
  const uint64_t bytes =
      sizeof fixed + fixed.name_bytes + fixed.key_bytes + fixed.version_bytes + fixed.mount_bytes;
  if (bytes != record.size()) return std::nullopt;
  const char* at = reinterpret_cast<const char*>(record.data()) + sizeof fixed;
  auto text = [&at](uint16_t size) { return std::string(std::exchange(at, at + size), size); };
  RecordedNode node;
  node.id = fixed.id;
  node.parent = fixed.parent;
  node.lookups = fixed.lookups;
  node.opens = static_cast<uint32_t>(fixed.opens);
  node.backing = static_cast<int32_t>(fixed.opens >> 32);
  node.kind = static_cast<FileKind>(fixed.node_kind);
  node.name = text(fixed.name_bytes);
  std::string key = text(fixed.key_bytes);
  if (fixed.key_ends_in_name != 0) key += node.name;
  Version version{static_cast<Version::Kind>(fixed.version_kind), text(fixed.version_bytes)};
  node.mount_path = text(fixed.mount_bytes);
  if (fixed.mtime != kNoTime) node.mtime = WallTime(WallTime::duration(fixed.mtime));
  node.fresh_until = Clock::time_point(Clock::duration(fixed.fresh_until));
  if (node.kind == FileKind::kDirectory) {
    node.directory_key = std::move(key);
    return node;
  }
  StoreId store;
  std::ranges::copy(fixed.store, store.bytes.begin());
  node.ref = std::make_shared<const FileRef>(
      FileRef::make(store, std::move(key), std::move(version), fixed.size,
                    static_cast<CacheUse>(fixed.cache), static_cast<PoolId>(fixed.pool)));
  return node;
}

uint64_t reserved_node_numbers(const MemfdRecordTable& records) {
  return std::atomic_ref(head_of(records).numbers_reserved).load();
}

void reserve_node_numbers(MemfdRecordTable& records, uint64_t below) {
  std::atomic_ref reserved(head_of(records).numbers_reserved);
  uint64_t known = reserved.load();
  while (known < below && !reserved.compare_exchange_weak(known, below)) {
  }
}

}  // namespace leat
