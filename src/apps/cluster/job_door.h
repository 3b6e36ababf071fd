// SPDX-License-Identifier: Apache-2.0
// JobDoor: orders of clients for jobs of the cluster, beside what PeerDoor answers
// (docs/formats/peer-protocol.md). Who may order what follows from the token, and what is ordered
// is written to the log. Thread-safe.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "cluster/cluster_view.h"
#include "doors/admin/cluster_host.h"
#include "doors/admin/codec.h"
#include "doors/peer/peer_door.h"
#include "http/router.h"
#include "jobs/cluster/cluster_job_book.h"

namespace leat {

// A job as it is shown.
ClusterJobView cluster_job_view(const ClusterJob& job);

struct ClusterOrder {
  JobOrder order;
  JobRepeat repeat;
};
Result<ClusterOrder> cluster_order_of(const ClusterJobRequest& request);

// Which right is missing for it, for messages; nothing where all are there.
std::optional<std::string> missing_right(const Rights& rights, const JobOrder& order);

class JobDoor {
 public:
  // Both must outlive it.
  JobDoor(const PeerDoor& door, ClusterMap& map) : door_(door), map_(map) {}

  void add_to(HttpRouter& router);
  // From now on orders are taken; `book` must outlive the servers that use the router.
  void open(ClusterJobBook& book) { book_ = &book; }

 private:
  Task<HttpResponse> start(Context context, HttpRequest request);
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> show(Context context, HttpRequest request);
  Task<HttpResponse> cancel(Context context, HttpRequest request);

  // Who asks, and the book; or what is answered in place of anything else.
  struct Asked {
    PrincipalPtr who;
    ClusterJobBook* book = nullptr;
    std::optional<HttpResponse> refused;
  };
  Asked admit(const HttpRequest& request) const;
  Result<ClusterJob> find(const Asked& asked, const HttpRequest& request) const;
  HttpResponse answer(int status, const Json& document) const;
  HttpResponse failure(const Status& why) const;

  const PeerDoor& door_;
  ClusterMap& map_;
  std::atomic<ClusterJobBook*> book_ = nullptr;
};

}  // namespace leat
