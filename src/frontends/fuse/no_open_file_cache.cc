// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/no_open_file_cache.h"

#include <utility>

namespace leat {

std::shared_ptr<OpenFile> NoOpenFileCache::find(NodeId node) {
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto position = shard.positions.find(node);
  if (position == shard.positions.end()) return nullptr;
  shard.files.splice(shard.files.begin(), shard.files, position->second);
  return shard.files.front();
}

std::shared_ptr<OpenFile> NoOpenFileCache::add(std::shared_ptr<OpenFile> file) {
  if (!file->ref()) return file;
  const NodeId node = file->node();
  std::shared_ptr<OpenFile> oldest;  // may close a descriptor, so freed without the lock
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto position = shard.positions.find(node);
  if (position != shard.positions.end()) return *position->second;
  shard.files.push_front(std::move(file));
  shard.positions.emplace(node, shard.files.begin());
  std::shared_ptr<OpenFile> added = shard.files.front();
  if (shard.files.size() > shard_max_) {
    oldest = std::move(shard.files.back());
    shard.files.pop_back();
    shard.positions.erase(oldest->node());
  }
  return added;
}

}  // namespace leat
