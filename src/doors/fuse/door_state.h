// SPDX-License-Identifier: Apache-2.0
// DoorState: state shared by the request handlers of one FUSE server. Handlers are plain functions
// of libfuse; they get it from their request.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>

#include "doors/fuse/connection_backings.h"
#include "doors/fuse/directory_handles.h"
#include "doors/fuse/door_records.h"
#include "doors/fuse/fuse_door.h"
#include "doors/fuse/libfuse.h"
#include "doors/fuse/log_limit.h"
#include "doors/fuse/open_files.h"
#include "doors/fuse/unopened_files.h"
#include "doors/fuse/waiting_requests.h"

namespace leat {

struct DoorState {
  DoorState(FuseDoorOptions door_options, FileSystem& system, Executor& pool)
      : options(std::move(door_options)), file_system(system), executor(pool) {}

  static DoorState& of(fuse_req_t request) {
    return *static_cast<DoorState*>(fuse_req_userdata(request));
  }
  std::unique_ptr<WaitingRequest> wait(fuse_req_t request, RequestLabel label) {
    return waiting.add(executor, request,
                       std::make_unique<RequestTrace>(file_system, std::move(label)));
  }

  const FuseDoorOptions options;
  FileSystem& file_system;
  Executor& executor;
  LogLimit log_limit{10};  // lines a second
  ConnectionBackings backings;
  OpenFiles files{backings};
  UnopenedFiles unopened;
  DirectoryHandles directories{options.records};
  DoorRecords records{options.records};
  WaitingRequests waiting;

  // INIT parameters of the predecessor on this connection.
  const std::optional<DoorRecords::Agreement> taken_over =
      options.connection >= 0 ? records.agreement() : std::nullopt;

  bool uses(FuseFeature feature) const { return !options.without.contains(feature); }

  // Set by INIT, which is answered before any other request.
  std::promise<void> initialised;
  bool no_open = false;
  mutable std::mutex features_mutex;
  FuseFeatures features;
  uint64_t wanted = 0;  // the agreed FUSE_CAP_…
};

}  // namespace leat
