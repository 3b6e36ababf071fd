// SPDX-License-Identifier: Apache-2.0
// DescriptorPool: the open descriptors of a cache directory's files and segments, bounded, those
// not used lately closed first (CLOCK). An object opens once however many want it. Thread-safe.
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
#include "runtime/shared_result.h"
#include "runtime/task.h"

namespace leat {

// Data, and what describes it: .meta of a file, .index of a segment. Both read-write.
struct FilePair {
  File data;
  File side;
};
using FilePairPtr = std::shared_ptr<FilePair>;

// Something with such a pair of files.
class Openable {
 public:
  virtual ~Openable() = default;
  // Below the cache directory: "files/ab/ab01….data".
  virtual std::string data_name() const = 0;
  virtual std::string side_name() const = 0;

  // What is open now, or null. Counts as a use.
  FilePairPtr opened();
  // Before what depends on the descriptors being closed, such as giving bytes back. Those who use
  // them at the moment keep them.
  void close_files();

 private:
  friend class DescriptorPool;

  std::mutex files_mutex_;  // leaf
  FilePairPtr files_;
  std::shared_ptr<SharedResult<FilePairPtr>> opening_;
  std::atomic<bool> used_ = false;
};

class DescriptorPool {
 public:
  DescriptorPool(std::string root, std::shared_ptr<Disk> disk, size_t objects_max)
      : root_(std::move(root)), disk_(std::move(disk)), objects_max_(objects_max) {}

  // The object's files, opened if they are not; they must exist. The object may be removed
  // meanwhile and another be at the same path: look at it again afterwards.
  Task<Result<FilePairPtr>> open(Context context, std::shared_ptr<Openable> object);
  // Takes over what was just created.
  void adopt(const std::shared_ptr<Openable>& object, FilePairPtr files);

 private:
  void enrol(const std::shared_ptr<Openable>& object);
  void forget_gone();  // under the mutex
  Result<FilePairPtr> open_now(const Openable& object);

  const std::string root_;
  const std::shared_ptr<Disk> disk_;
  const size_t objects_max_;

  std::mutex mutex_;                           // leaf
  std::deque<std::weak_ptr<Openable>> clock_;  // oldest first
  size_t enrolled_ = 0;  // since it was looked through for those that are gone
};

}  // namespace leat
