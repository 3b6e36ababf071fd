// SPDX-License-Identifier: Apache-2.0
// PeerDoor: the peer protocol server of a worker (docs/formats/peer-protocol.md). Every request is
// signed; read permissions are checked here, before any page is accessed.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cluster/cluster_view.h"
#include "doors/peer/answer_room.h"
#include "doors/peer/own_peer.h"
#include "doors/peer/snapshots/snapshot_door.h"
#include "http/router.h"
#include "peer/change_log.h"
#include "peer/handover/descriptor_door.h"
#include "peer/trust/request_verifier.h"

namespace leat {

struct PeerDoorParts {
  OwnPeer& own;
  ClusterMap& map;
  ChangeLog& changes;
  RequestVerifier& verifier;
  // Returns true if `map` is known to equal the registry.
  std::function<bool()> follows;
  // Long-poll timeout: a request for the view is answered after it even without news, as a sign of
  // life.
  Clock::duration poll_time = std::chrono::seconds(8);
  // Handles invalidations from another worker, for this one's clients.
  std::function<void(PeerChanges)> told;
  SnapshotKeeper* snapshots = nullptr;
  AnswerRoomOptions answers{};
};

class PeerDoor {
 public:
  // All of `parts` must outlive the object; the object must outlive servers that use its router.
  explicit PeerDoor(PeerDoorParts parts);

  HttpRouter router();
  // Handler of a DescriptorDoor: passes the whole file if the reader may read it.
  Task<Result<HandedFile>> descriptor(Context context, HttpRequest request);

  // For other routes of the server: returns the refusal of a badly signed request; else sets the
  // principal.
  std::optional<HttpResponse> refuse_unsigned(const HttpRequest& request, PrincipalPtr* who) const {
    return refusal(request, "", who);
  }

 private:
  Task<HttpResponse> ping(Context context, HttpRequest request);
  Task<HttpResponse> bytes(Context context, HttpRequest request);
  Task<HttpResponse> batch(Context context, HttpRequest request);
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> stat(Context context, HttpRequest request);
  Task<HttpResponse> cluster(Context context, HttpRequest request);
  Task<HttpResponse> changes(Context context, HttpRequest request);
  Task<HttpResponse> take_changes(Context context, HttpRequest request);
  Task<HttpResponse> upkeep(Context context, HttpRequest request);
  Task<HttpResponse> drop(Context context, HttpRequest request);
  Task<HttpResponse> verify(Context context, HttpRequest request);
  Task<HttpResponse> copy(Context context, HttpRequest request);

  // Returns the answer to a request that must be refused; nothing if it may proceed. Sets the
  // principal, if requested.
  std::optional<HttpResponse> refusal(const HttpRequest& request, const std::string& mount,
                                      PrincipalPtr* who = nullptr) const;
  // The same for requests between workers; `what` describes them: "tell of what has changed".
  std::optional<HttpResponse> worker_only(const HttpRequest& request, std::string_view what) const;
  Result<PrincipalPtr> verified(const HttpRequest& request) const;
  HttpResponse unauthorised(const Status& why) const;
  void set_epoch(HttpResponse& response) const;

  // Returns the document of the whole view, encoded once for all waiters: 5 ms of CPU for a
  // thousand workers.
  std::shared_ptr<const std::string> document_of(const ClusterViewPtr& view);

  const PeerDoorParts parts_;
  AnswerRoom answers_;
  SnapshotDoor snapshots_;
  std::mutex mutex_;        // leaf
  ClusterViewPtr written_;  // view of document_
  std::shared_ptr<const std::string> document_;
};

}  // namespace leat
