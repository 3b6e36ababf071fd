// SPDX-License-Identifier: Apache-2.0
// SnapshotDoor: a worker's snapshots over HTTP (docs/formats/peer-protocol.md). Private to this
// room.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "doors/peer/snapshots/snapshot_keeper.h"
#include "http/router.h"
#include "peer/trust/request_verifier.h"

namespace leat {

struct SnapshotDoorParts {
  SnapshotKeeper* keeper = nullptr;  // null: this worker has none
  ClusterMap& map;
  // What is answered in place of anything else to who is not believed, else who asks.
  std::function<std::optional<HttpResponse>(const HttpRequest&, PrincipalPtr*)> refusal;
  std::function<std::optional<HttpResponse>(const HttpRequest&)> worker_only;
};

class SnapshotDoor {
 public:
  // All of `parts` must outlive it, and it the servers that use its router.
  explicit SnapshotDoor(SnapshotDoorParts parts) : parts_(std::move(parts)) {}

  void add_to(HttpRouter& router);

 private:
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> build(Context context, HttpRequest request);
  Task<HttpResponse> remove(Context context, HttpRequest request);
  Task<HttpResponse> hold(Context context, HttpRequest request);
  Task<HttpResponse> file(Context context, HttpRequest request);

  HttpResponse failure(const Status& why) const;
  std::optional<HttpResponse> missing() const;

  const SnapshotDoorParts parts_;
};

}  // namespace leat
