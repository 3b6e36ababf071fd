// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/unopened_files.h"

#include <utility>

namespace leat {

std::shared_ptr<OpenFile> UnopenedFiles::find(NodeId node) {
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto place = shard.places.find(node);
  if (place == shard.places.end()) return nullptr;
  shard.files.splice(shard.files.begin(), shard.files, place->second);
  return shard.files.front();
}

std::shared_ptr<OpenFile> UnopenedFiles::add(std::shared_ptr<OpenFile> file) {
  if (!file->ref()) return file;
  const NodeId node = file->node();
  std::shared_ptr<OpenFile> oldest;  // may close a descriptor, so freed without the lock
  Shard& shard = shard_of(node);
  std::lock_guard lock(shard.mutex);
  auto place = shard.places.find(node);
  if (place != shard.places.end()) return *place->second;
  shard.files.push_front(std::move(file));
  shard.places.emplace(node, shard.files.begin());
  std::shared_ptr<OpenFile> added = shard.files.front();
  if (shard.files.size() > shard_max_) {
    oldest = std::move(shard.files.back());
    shard.files.pop_back();
    shard.places.erase(oldest->node());
  }
  return added;
}

}  // namespace leat
