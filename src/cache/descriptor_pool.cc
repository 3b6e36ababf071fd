// SPDX-License-Identifier: Apache-2.0
#include "cache/descriptor_pool.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "runtime/descriptor_limit.h"

namespace leat {
namespace {

// Recently used objects that one open may pass over before it closes one of them.
constexpr int kPassedOverMax = 64;
constexpr size_t kSweepInsertsMin = 64;  // opens between two searches for destroyed objects
constexpr uint64_t kObjectsMin = 4;      // of a pool, however small the limit

std::atomic<size_t> pools_in_process = 0;

}  // namespace

DescriptorPool::DescriptorPool(std::string root, std::shared_ptr<Disk> disk, size_t objects_max)
    : root_(std::move(root)), disk_(std::move(disk)), objects_max_(objects_max) {
  ++pools_in_process;
}

DescriptorPool::~DescriptorPool() {
  --pools_in_process;
}

size_t DescriptorPool::objects_max_now() const {
  const uint64_t share = (descriptor_limit() - descriptors_beside_caches()) / 2 / pools_in_process;
  return std::min<uint64_t>(objects_max_, std::max(kObjectsMin, share));
}

FilePairPtr FdOwner::open_files() {
  std::lock_guard lock(files_mutex_);
  if (files_ != nullptr) used_.store(true, std::memory_order_relaxed);
  return files_;
}

void FdOwner::close_files() {
  FilePairPtr closing;  // closed after the lock is released
  std::lock_guard lock(files_mutex_);
  closing.swap(files_);
}

Task<Result<FilePairPtr>> DescriptorPool::open(Context context, std::shared_ptr<FdOwner> object) {
  std::shared_ptr<SharedPromise<FilePairPtr>> opening;
  bool first = false;
  {
    std::lock_guard lock(object->files_mutex_);
    if (object->files_ != nullptr) {
      object->used_.store(true, std::memory_order_relaxed);
      co_return object->files_;
    }
    first = object->opening_ == nullptr;
    if (first) object->opening_ = SharedPromise<FilePairPtr>::make();
    opening = object->opening_;
  }
  if (!first) {
    Result<FilePairPtr> files = co_await opening->wait(context, "open a cache file");
    co_return files;
  }
  // By reference: a copy in the call could outlive this frame and delay the return of the bytes.
  Result<FilePairPtr> files =
      co_await disk_->threads().run([this, &object] { return open_now(*object); });
  {
    std::lock_guard lock(object->files_mutex_);
    if (files) object->files_ = *files;
    object->opening_ = nullptr;
  }
  if (files) insert(object);
  opening->set(files);
  co_return files;
}

void DescriptorPool::adopt(const std::shared_ptr<FdOwner>& object, FilePairPtr files) {
  {
    std::lock_guard lock(object->files_mutex_);
    object->files_ = std::move(files);
  }
  insert(object);
}

Result<FilePairPtr> DescriptorPool::open_now(const FdOwner& object) {
  auto files = std::make_shared<FilePair>();
  LEAT_TRY(files->data, disk_->open(root_ + "/" + object.data_name(), O_RDWR, 0));
  LEAT_TRY(files->side, disk_->open(root_ + "/" + object.side_name(), O_RDWR, 0));
  return files;
}

// A weak pointer holds the memory of a destroyed object, so expired ones are removed.
void DescriptorPool::sweep_expired() {
  if (++inserts_since_sweep_ < std::max(kSweepInsertsMin, clock_.size() / 2)) return;
  std::erase_if(clock_, [](const auto& object) { return object.expired(); });
  inserts_since_sweep_ = 0;
}

void DescriptorPool::insert(const std::shared_ptr<FdOwner>& object) {
  // Destroyed after the lock is released; they may hold the last reference to an object.
  std::vector<std::shared_ptr<FdOwner>> seen, closing;
  const size_t objects_max = objects_max_now();
  {
    std::lock_guard lock(mutex_);
    sweep_expired();
    clock_.push_back(object);
    while (clock_.size() > objects_max) {
      std::shared_ptr<FdOwner> oldest = clock_.front().lock();
      clock_.pop_front();
      if (oldest == nullptr) continue;
      bool spare = oldest->used_.exchange(false) && seen.size() < kPassedOverMax;
      if (spare) clock_.push_back(oldest);
      (spare ? seen : closing).push_back(std::move(oldest));
    }
  }
  for (const auto& idle : closing) idle->close_files();
}

}  // namespace leat
