// SPDX-License-Identifier: Apache-2.0
// VersionedFile: an open file of the store, one version to its end, with prefetch for its readers.
// It may read the file itself: a local file that is not cached, compared after each read, or a file
// received by fd passing from another process's cache. FileDeps has the shared
// dependencies.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "prefetch/mmap_fault_detector.h"
#include "prefetch/stream.h"
#include "vfs/epoch_watcher.h"
#include "vfs/file_system.h"
#include "vfs/mount_metrics.h"
#include "vfs/next_file_prefetcher.h"
#include "vfs/node_table.h"

namespace leat {

struct FileDeps {
  Fetcher& fetcher;
  PageStore* store;  // may be null
  // Called if a read found that the version no longer exists.
  std::function<void(const Node&, const Status&)> changed;
  std::function<std::string(const Node&)> path;
  WindowBudget* windows = nullptr;                                    // of the host; may be null
  uint64_t prefetch_window_bytes = StreamOptions{}.window_bytes_max;  // of each reader; 0: none
  uint64_t fault_around_bytes = 0;                                    // FileSystemOptions
  std::unique_ptr<NextFilePrefetcher> next{};                         // may be null
  std::unique_ptr<EpochWatcher> epochs{};                             // may be null
  std::unique_ptr<MountMetrics> metrics{};
  std::function<Clock::time_point()> now = &Clock::now;
};

// FailedWait: the failure of a read that waited long for its store. The kernel repeats a failed
// readahead as a read, which would wait as long again. For a second this failure answers that
// read, too. Thread-safe.
class FailedWait {
 public:
  void record(Clock::time_point began, Clock::time_point now, const Status& why);
  std::optional<Status> recent(Clock::time_point now) const;

 private:
  std::atomic<bool> any_ = false;
  mutable std::mutex mutex_;  // leaf
  Clock::time_point until_{};
  std::optional<Status> why_;
};

class VersionedFile : public OpenFile {
 public:
  // `pass_through`: the kernel may read a local file directly, although its bytes may be replaced.
  // `ref`: of the node's version, with the mount's present policy.
  VersionedFile(const FileDeps& deps, NodePtr node, FileRefPtr ref, bool pass_through = false);

  // Reads use `file` from now on. Call before other threads have this file; may be null.
  void read_from(SourceFilePtr file) { local_ = std::move(file); }

  NodeId node() const override { return node_->id; }
  const FileRefPtr& ref() const override { return ref_; }
  std::optional<Bytes> try_read(uint64_t offset, uint64_t size) override;
  Task<Result<Bytes>> read(Context context, uint64_t offset, uint64_t size) override;
  bool rejects_fault_around(uint64_t offset, uint64_t size) override;
  std::shared_ptr<BackingFile> backing() override;
  std::shared_ptr<BackingFile> hold_backing() override;
  void record_open(uint32_t opens, int32_t backing) override {
    node_->record.set_open(opens, backing);
  }

 private:
  Task<Result<Bytes>> read_unless_failed(Context context, ByteRange range, bool cached);
  Task<Result<Bytes>> read_range(Context context, ByteRange range, bool cached);
  ByteRange within(uint64_t offset, uint64_t size) const;
  void prefetch(ByteRange read);
  bool on_disk(ByteRange range) const;

  const FileDeps& deps_;
  const NodePtr node_;
  const FileRefPtr ref_;
  const bool pass_through_;
  SourceFilePtr local_;  // null: through the fetcher
  StreamTable streams_;
  MmapFaultDetector fault_detector_;
  FailedWait failed_wait_;
  std::atomic<bool> missed_ = false;  // a read had to wait for the store
};

}  // namespace leat
