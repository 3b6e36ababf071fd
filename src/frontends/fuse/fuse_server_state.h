// SPDX-License-Identifier: Apache-2.0
// FuseServerState: state shared by the request handlers of one FUSE server. Handlers are plain
// functions of libfuse; they get it from their request.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>

#include "frontends/fuse/connection_backings.h"
#include "frontends/fuse/directory_handles.h"
#include "frontends/fuse/fuse_server.h"
#include "frontends/fuse/invalidation_thread.h"
#include "frontends/fuse/libfuse.h"
#include "frontends/fuse/log_rate_limiter.h"
#include "frontends/fuse/no_open_file_cache.h"
#include "frontends/fuse/open_files.h"
#include "frontends/fuse/pending_requests.h"
#include "frontends/fuse/takeover_records.h"
#include "runtime/gate.h"
#include "vfs/writing/staged/write_outcome.h"

namespace leat {

struct FuseServerState {
  FuseServerState(FuseServerOptions server_options, FileSystem& system, Executor& pool)
      : options(std::move(server_options)), file_system(system), executor(pool) {}

  static FuseServerState& of(fuse_req_t request) {
    return *static_cast<FuseServerState*>(fuse_req_userdata(request));
  }
  std::unique_ptr<PendingRequest> add_pending(fuse_req_t request, RequestLabel label) {
    const SignalPatience patience = patience_of(label.kind);
    return pending.add(executor, request,
                       std::make_unique<RequestTrace>(file_system, std::move(label)), patience);
  }
  // A change is not interrupted by what its program handles, nor are the lookups before it.
  SignalPatience patience_of(RequestKind kind) const {
    if (options.read_only) return {};
    const bool changes =
        kind == RequestKind::kWrite || kind == RequestKind::kSave || kind == RequestKind::kChange;
    return changes ? std::chrono::hours(24) : std::chrono::seconds(5);
  }
  // After a failed change that may be done all the same: the kernel may know the name as missing.
  void forget_name(NodeId parent, std::string name, StatusCode failure) {
    InvalidationThread* const queue = invalidations.load();
    if (queue == nullptr || !is_unknown_outcome(failure)) return;
    queue->push({.parent = parent, .name = std::move(name), .node = 0});
  }

  const FuseServerOptions options;
  FileSystem& file_system;
  Executor& executor;
  std::atomic<InvalidationThread*> invalidations = nullptr;  // null until the server has started
  LogRateLimiter log_limiter{10};                            // lines a second
  ConnectionBackings backings;
  OpenFiles files{backings};
  NoOpenFileCache no_open_files;
  DirectoryHandles directories{options.records};
  TakeoverRecords records{options.records};
  PendingRequests pending;
  Gate closing;  // files that are saved after their last close

  // INIT parameters of the predecessor on this connection.
  const std::optional<TakeoverRecords::InitParams> predecessor_init =
      options.connection >= 0 ? records.init_params() : std::nullopt;

  bool uses(FuseFeature feature) const { return !options.disabled_features.contains(feature); }

  // Set by INIT, which is answered before any other request.
  std::promise<void> initialised;
  bool no_open = false;
  mutable std::mutex features_mutex;
  FuseFeatures features;
  uint64_t capabilities = 0;  // the agreed FUSE_CAP_…
};

}  // namespace leat
