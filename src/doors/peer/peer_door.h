// SPDX-License-Identifier: Apache-2.0
// PeerDoor: what a worker answers over HTTP (docs/formats/peer-protocol.md). Every request is
// signed; who may read what is checked here, before a page is touched.
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
  // Whether `map` is what the registry holds now, as far as we know.
  std::function<bool()> follows;
  // A question for the view is answered after it, news or not, so that the asker knows we live.
  Clock::duration poll_time = std::chrono::seconds(8);
  // What another worker tells of changes, for this one's clients.
  std::function<void(PeerChanges)> told;
  SnapshotKeeper* snapshots = nullptr;
  AnswerRoomOptions answers{};
};

class PeerDoor {
 public:
  // All of `parts` must outlive it, and it the servers that use its router.
  explicit PeerDoor(PeerDoorParts parts);

  HttpRouter router();
  // What a DescriptorDoor asks: the whole file, for who may read it.
  Task<Result<HandedFile>> descriptor(Context context, HttpRequest request);

  // For what is answered beside it: the answer to who has not signed as he should; else who asks.
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

  // What is answered in place of anything else, where there is something.
  // `who`, where it is given, is who asks.
  std::optional<HttpResponse> refusal(const HttpRequest& request, const std::string& mount,
                                      PrincipalPtr* who = nullptr) const;
  // Of what only workers ask of each other: "tell of what has changed".
  std::optional<HttpResponse> worker_only(const HttpRequest& request, std::string_view what) const;
  Result<PrincipalPtr> verified(const HttpRequest& request) const;
  HttpResponse unauthorised(const Status& why) const;
  void set_epoch(HttpResponse& response) const;

  // Of all of a view, written once for all who wait for it: 5 ms of CPU of a thousand workers.
  std::shared_ptr<const std::string> document_of(const ClusterViewPtr& view);

  const PeerDoorParts parts_;
  AnswerRoom answers_;
  SnapshotDoor snapshots_;
  std::mutex mutex_;        // leaf
  ClusterViewPtr written_;  // whose document it is
  std::shared_ptr<const std::string> document_;
};

}  // namespace leat
