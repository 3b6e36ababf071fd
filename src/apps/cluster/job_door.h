// SPDX-License-Identifier: Apache-2.0
// JobDoor: HTTP routes for clients' jobs of the cluster, beside those of PeerDoor
// (docs/formats/peer-protocol.md). The rights of the token decide which jobs a client may order.
// Orders are written to the audit log. Thread-safe.
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

// Returns a job in its public form.
ClusterJobView cluster_job_view(const ClusterJob& job);

struct ClusterOrder {
  JobOrder order;
  JobRepeat repeat;
};
Result<ClusterOrder> cluster_order_of(const ClusterJobRequest& request);

// Returns the missing right for an order, for messages; nothing if all rights are there.
std::optional<std::string> missing_right(const Rights& rights, const JobOrder& order);

class JobDoor {
 public:
  // Both must outlive it.
  JobDoor(const PeerDoor& door, ClusterMap& map) : door_(door), map_(map) {}

  void add_to(HttpRouter& router);
  // Accepts orders from now on. `book` must outlive the servers that use the router.
  void open(ClusterJobBook& book) { book_ = &book; }

 private:
  Task<HttpResponse> start(Context context, HttpRequest request);
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> show(Context context, HttpRequest request);
  Task<HttpResponse> cancel(Context context, HttpRequest request);

  // The principal of a request and the book, or a rejection.
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
