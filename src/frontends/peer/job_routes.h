// SPDX-License-Identifier: Apache-2.0
// JobRoutes: HTTP routes for clients' jobs of the cluster, beside those of PeerServer
// (docs/formats/peer-protocol.md). The rights of the token decide which jobs a client may start.
// Job starts are written to the audit log. Thread-safe.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "cluster/cluster_view.h"
#include "frontends/admin/cluster_api.h"
#include "frontends/admin/codec.h"
#include "frontends/peer/peer_server.h"
#include "http/router.h"
#include "jobs/cluster/cluster_job_store.h"

namespace leat {

// Returns a job in its public form.
ClusterJobView cluster_job_view(const ClusterJob& job);

struct ClusterJobSpec {
  JobSpec spec;
  JobSchedule schedule;
};
Result<ClusterJobSpec> cluster_job_spec_of(const ClusterJobRequest& request);

// Returns the missing right for a job, for messages; nothing if all rights are there.
std::optional<std::string> missing_right(const Rights& rights, const JobSpec& spec);

class JobRoutes {
 public:
  // Both must outlive it.
  JobRoutes(const PeerServer& peer_server, ClusterViewSource& views)
      : peer_server_(peer_server), views_(views) {}

  void add_to(HttpRouter& router);
  // Accepts requests from now on. `store` must outlive the servers that use the router.
  void set_store(ClusterJobStore& store) { store_ = &store; }

 private:
  Task<HttpResponse> start(Context context, HttpRequest request);
  Task<HttpResponse> list(Context context, HttpRequest request);
  Task<HttpResponse> show(Context context, HttpRequest request);
  Task<HttpResponse> cancel(Context context, HttpRequest request);

  // The principal of a request and the store of jobs, or a rejection.
  struct Admission {
    PrincipalPtr principal;
    ClusterJobStore* store = nullptr;
    std::optional<HttpResponse> rejection;
  };
  Admission admit(const HttpRequest& request) const;
  Result<ClusterJob> find(const Admission& admission, const HttpRequest& request) const;
  HttpResponse response(int status, const Json& document) const;
  HttpResponse failure(const Status& why) const;

  const PeerServer& peer_server_;
  ClusterViewSource& views_;
  std::atomic<ClusterJobStore*> store_ = nullptr;
};

}  // namespace leat
