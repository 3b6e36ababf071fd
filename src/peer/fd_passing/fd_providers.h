// SPDX-License-Identifier: Apache-2.0
// FdProviders: the workers of a cluster that are on this host and pass files. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "auth/request_signature.h"
#include "cluster/cluster_view.h"
#include "peer/fd_passing/fd_provider.h"

namespace leat {

struct FdProvidersOptions {
  // WorkerInfo::host_id of this host. Containers of one host share it. A socket that is not visible
  // here, or belongs to another worker, does not answer for the requested worker. Empty: unknown.
  std::string host_id{};
  std::shared_ptr<RequestSigner> signer{};
  // Returns the worker of this process, which needs no socket, and null for others. May be empty.
  std::function<FdProviderPtr(const WorkerInfo&)> own{};
  // Timeout of a request, and back-off after a request without an answer.
  Clock::duration timeout = std::chrono::milliseconds(500);
  Clock::duration backoff = std::chrono::seconds(5);
};

class FdProviders {
 public:
  explicit FdProviders(FdProvidersOptions options) : options_(std::move(options)) {}

  void update(const ClusterView& view);
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  // Returns null if the worker passes no files here, or during its back-off.
  FdProviderPtr find(const WorkerId& id) const;

 private:
  struct Entry {
    std::string endpoint;  // host and socket path
    FdProviderPtr provider;
  };

  FdProviderPtr make(const WorkerInfo& info) const;

  const FdProvidersOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;  // leaf, except that `own` is called under it
  std::map<WorkerId, Entry> providers_;
};

}  // namespace leat
