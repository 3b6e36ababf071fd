// SPDX-License-Identifier: Apache-2.0
// FileGivers: the workers of a cluster that are on this host and pass files. Thread-safe.
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
  // WorkerInfo::host_id of this host. Containers of one host share it. A socket that is not visible
  // here, or belongs to another worker, does not answer for the requested worker. Empty: unknown.
  std::string host_id{};
  std::shared_ptr<RequestSigner> signer{};
  // Returns the worker of this process, which needs no socket, and null for others. May be empty.
  std::function<FileGiverPtr(const WorkerInfo&)> own{};
  // Timeout of a request, and back-off after a request without an answer.
  Clock::duration patience = std::chrono::milliseconds(500);
  Clock::duration rest = std::chrono::seconds(5);
};

class FileGivers {
 public:
  explicit FileGivers(FileGiversOptions options) : options_(std::move(options)) {}

  void update(const ClusterView& view);
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  // Returns null if the worker passes no files here, or during its back-off.
  FileGiverPtr find(const WorkerId& id) const;

 private:
  struct Known {
    std::string place;  // host and socket path
    FileGiverPtr giver;
  };

  FileGiverPtr make(const WorkerInfo& info) const;

  const FileGiversOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;  // leaf, except that `own` is called under it
  std::map<WorkerId, Known> givers_;
};

}  // namespace leat
