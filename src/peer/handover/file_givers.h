// SPDX-License-Identifier: Apache-2.0
// FileGivers: those workers of a cluster that are on this host and give their files. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/cluster_view.h"
#include "peer/handover/file_giver.h"
#include "peer/trust/request_signature.h"

namespace leat {

struct FileGiversOptions {
  // WorkerInfo::host_id of this host. Containers of one host have the same: whose socket is not in
  // sight, or is another worker's, does not answer for the one that is asked. Empty: unknown.
  std::string host_id{};
  std::shared_ptr<RequestSigner> signer{};
  // The worker that this process is, without a socket; null for others. May be empty.
  std::function<FileGiverPtr(const WorkerInfo&)> own{};
  // How long an answer is waited for, and how long who gave none is left alone.
  Clock::duration patience = std::chrono::milliseconds(500);
  Clock::duration rest = std::chrono::seconds(5);
};

class FileGivers {
 public:
  explicit FileGivers(FileGiversOptions options) : options_(std::move(options)) {}

  void update(const ClusterView& view);
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  // Null for one that gives nothing here, or is not to be asked now.
  FileGiverPtr find(const WorkerId& id) const;

 private:
  struct Known {
    std::string place;  // host and socket
    FileGiverPtr giver;
  };

  FileGiverPtr make(const WorkerInfo& info) const;

  const FileGiversOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;  // leaf, but for `own`
  std::map<WorkerId, Known> givers_;
};

}  // namespace leat
