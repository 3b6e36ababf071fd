// SPDX-License-Identifier: Apache-2.0
// PerFileJob: a job over every selected file at and below a path. One task walks the directories
// and counts the work, so that the totals are known early. Another starts the files, directory by
// directory.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "jobs/job.h"
#include "jobs/tree_walk.h"
#include "model/file_filter.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"

namespace leat {

// Queue of directories that the walk found and that have files not started yet. One task puts, one
// takes.
class DirectoryQueue {
 public:
  // Bounds of queued directories, and of names in held listings. Beyond that bound a directory is
  // listed again.
  static constexpr size_t kDirectoriesMax = 100'000;
  static constexpr uint64_t kNamesMax = 500'000;

  struct Item {
    std::string path;
    ListingPtr listing;  // null: must be listed again
  };

  // Waits while the queue has kDirectoriesMax.
  Task<Result<>> put(Context context, Item item);
  // No further put() follows.
  void close();
  // Returns nothing after the last one.
  Task<std::optional<Item>> take();

 private:
  using WaiterPtr = std::shared_ptr<SharedPromise<bool>>;
  static WaiterPtr add_waiter(WaiterPtr& waiter);
  static void wake(WaiterPtr& waiter);

  std::mutex mutex_;  // leaf
  std::deque<Item> items_;
  uint64_t names_ = 0;
  bool closed_ = false;
  WaiterPtr not_empty_, not_full_;  // null: no task waits
};

class PerFileJob : public Job {
 protected:
  // How a job treats keys that cannot be names of files.
  enum class Unnameable : uint8_t { kSkipped, kErrors };

  PerFileJob(uint64_t id, JobKind kind, std::string path, FileFilter filter, Catalog& catalog,
             Executor& executor, Unnameable unnameable = Unnameable::kSkipped)
      : Job(id, kind, std::move(path)),
        filter_(std::move(filter)),
        catalog_(catalog),
        executor_(executor),
        unnameable_(unnameable) {}

  // Returns when the files of the last directory have started, or begin_files() returned false.
  // Errors of directories become errors of the job. `gate` counts the listings ahead.
  Task<> walk(Context context, Gate& gate);

  // Returns the work in a directory. Called on any thread.
  virtual JobProgress count(const Listing& listing, const FileSelector& selector) const = 0;
  // Returns false if the job must end. `selector` lives until it returns.
  virtual Task<bool> begin_files(Context context, std::string directory, ListingPtr listing,
                                 const FileSelector* selector) = 0;

  const FileFilter& filter() const { return filter_; }
  Catalog& catalog() const { return catalog_; }
  Executor& executor() const { return executor_; }

 private:
  Task<> plan(Gate::Holder holder, Context context, Gate* gate, DirectoryQueue* queue);
  Task<> add_to_totals(std::string directory, ListingPtr listing);
  Task<bool> begin(Context context, DirectoryQueue::Item item);

  const FileFilter filter_;
  Catalog& catalog_;
  Executor& executor_;
  const Unnameable unnameable_;
};

}  // namespace leat
