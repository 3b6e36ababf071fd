// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/directory_handles.h"

#include <algorithm>
#include <cstring>

namespace leat {
namespace {

constexpr uint32_t kDirectoryRecordKind = 2;  // 1 is a node's (vfs/node_record.h)

}  // namespace

// Two positions, so that one is complete while the other is written. A reader with a lost answer
// repeats the previous offset.
struct DirectoryRecord {
  uint32_t kind;
  uint32_t newest;  // index of the newest position
  uint64_t handle;
  uint64_t node;
  struct Position {
    uint64_t offset;
    uint32_t name_bytes;
    char name[kNameBytesMax];
  } positions[2];
};

DirectoryHandle::~DirectoryHandle() {
  if (record_ != nullptr) records_->free(reinterpret_cast<std::byte*>(record_));
}

std::shared_ptr<OpenDirectory> DirectoryHandle::directory() const {
  std::lock_guard lock(mutex_);
  return directory_;
}

std::shared_ptr<OpenDirectory> DirectoryHandle::set_directory(
    std::shared_ptr<OpenDirectory> directory) {
  std::lock_guard lock(mutex_);
  if (!directory_ || !directory_->is_latest()) directory_ = std::move(directory);
  return directory_;
}

void DirectoryHandle::record_progress(uint64_t next, std::string_view name) {
  std::lock_guard lock(mutex_);
  if (record_ == nullptr || name.size() > kNameBytesMax) return;
  const uint32_t other = 1 - record_->newest;
  DirectoryRecord::Position& position = record_->positions[other];
  position.offset = next;
  position.name_bytes = static_cast<uint32_t>(name.size());
  std::ranges::copy(name, position.name);
  std::atomic_ref(record_->newest).store(other, std::memory_order_release);
}

void DirectoryHandle::clear_resumed() {
  std::lock_guard lock(mutex_);
  resumed_ = {};
}

std::optional<std::string> DirectoryHandle::resume_after(uint64_t offset) const {
  std::lock_guard lock(mutex_);
  for (const auto& position : resumed_) {
    if (position && position->offset == offset) return position->name;
  }
  return std::nullopt;
}

DirectoryHandles::DirectoryHandles(MemfdRecordTable* records)
    : records_(records), next_(static_cast<uint64_t>(Clock::now().time_since_epoch().count())) {}

uint64_t DirectoryHandles::add(std::shared_ptr<OpenDirectory> directory) {
  const NodeId node = directory->node();
  DirectoryRecord* record = nullptr;
  if (records_ != nullptr) {
    record = reinterpret_cast<DirectoryRecord*>(records_->allocate(sizeof(DirectoryRecord)));
  }
  auto made = std::make_shared<DirectoryHandle>(node, records_, record);
  made->set_directory(std::move(directory));
  uint64_t handle;
  {
    std::lock_guard lock(mutex_);
    handle = next_++;
    handles_.emplace(handle, std::move(made));
  }
  if (record != nullptr) {
    record->kind = kDirectoryRecordKind;
    record->handle = handle;
    record->node = node;
    records_->publish(reinterpret_cast<std::byte*>(record));
  }
  return handle;
}

std::shared_ptr<DirectoryHandle> DirectoryHandles::find(uint64_t handle) const {
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

void DirectoryHandles::remove(uint64_t handle) {
  std::shared_ptr<DirectoryHandle> gone;  // its record and listing are freed without the lock
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  gone = std::move(found->second);
  handles_.erase(found);
}

void DirectoryHandles::take_over() {
  if (records_ == nullptr) return;
  records_->visit([this](std::span<std::byte> bytes) {
    auto* record = reinterpret_cast<DirectoryRecord*>(bytes.data());
    if (bytes.size() != sizeof *record || record->kind != kDirectoryRecordKind) return;
    auto handle = std::make_shared<DirectoryHandle>(record->node, records_, record);
    for (size_t i = 0; i < 2; ++i) {
      const DirectoryRecord::Position& position = record->positions[i];
      if (position.offset == 0 || position.name_bytes > kNameBytesMax) continue;
      handle->resumed_[i] = {position.offset, std::string(position.name, position.name_bytes)};
    }
    handles_.emplace(record->handle, std::move(handle));
  });
}

}  // namespace leat
