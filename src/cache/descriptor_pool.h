// SPDX-License-Identifier: Apache-2.0
// DescriptorPool: a bounded cache of the open descriptors of a directory's files and segments;
// closes those not used lately first (CLOCK). Concurrent opens of one object share one open.
// The pools of a process share its descriptors, and leave some to others
// (runtime/descriptor_limit.h). Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/disk.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"

namespace leat {

// The data file, and the file that describes it: .meta of a file, .index of a segment. Both open
// read-write.
struct FilePair {
  File data;
  File side;
};
using FilePairPtr = std::shared_ptr<FilePair>;

// FdOwner: an object with such a pair of files.
class FdOwner {
 public:
  virtual ~FdOwner() = default;
  // Path below the cache directory: "files/ab/ab01….data".
  virtual std::string data_name() const = 0;
  virtual std::string side_name() const = 0;

  // Returns the open files, or null. Counts as a use.
  FilePairPtr open_files();
  // Call before any step that needs the descriptors closed, such as returning bytes. Threads that
  // use them at the moment keep them.
  void close_files();

 private:
  friend class DescriptorPool;

  std::mutex files_mutex_;  // leaf
  FilePairPtr files_;
  std::shared_ptr<SharedPromise<FilePairPtr>> opening_;
  std::atomic<bool> used_ = false;
};

class DescriptorPool {
 public:
  DescriptorPool(std::string root, std::shared_ptr<Disk> disk, size_t objects_max);
  ~DescriptorPool();
  DescriptorPool(const DescriptorPool&) = delete;

  // Returns the object's files and opens them if needed; they must exist. Meanwhile the object may
  // be removed and another one may take its path: check the object again afterwards.
  Task<Result<FilePairPtr>> open(Context context, std::shared_ptr<FdOwner> object);
  // Takes ownership of files that were just created.
  void adopt(const std::shared_ptr<FdOwner>& object, FilePairPtr files);

 private:
  void insert(const std::shared_ptr<FdOwner>& object);
  void sweep_expired();  // needs the mutex
  // Returns the largest number of open objects now; the limit of the process may change any time.
  size_t objects_max_now() const;
  Result<FilePairPtr> open_now(const FdOwner& object);

  const std::string root_;
  const std::shared_ptr<Disk> disk_;
  const size_t objects_max_;

  std::mutex mutex_;                          // leaf
  std::deque<std::weak_ptr<FdOwner>> clock_;  // oldest first
  size_t inserts_since_sweep_ = 0;            // since the last search for destroyed objects
};

}  // namespace leat
