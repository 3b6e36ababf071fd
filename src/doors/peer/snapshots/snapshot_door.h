// SPDX-License-Identifier: Apache-2.0
// SnapshotDoor: HTTP routes of a worker's snapshots (docs/formats/peer-protocol.md). Private to
// this module.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "doors/peer/snapshots/snapshot_keeper.h"
#include "http/router.h"
#include "peer/trust/request_verifier.h"

namespace leat {

struct SnapshotDoorParts {
  SnapshotKeeper* keeper = nullptr;  // null: no snapshots here
  ClusterMap& map;
  // Returns the refusal of an unauthenticated request; else sets the principal.
  std::function<std::optional<HttpResponse>(const HttpRequest&, PrincipalPtr*)> refusal;
  std::function<std::optional<HttpResponse>(const HttpRequest&)> worker_only;
};

class SnapshotDoor {
 public:
  // All of `parts` must outlive the object; the object must outlive servers that use its router.
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
