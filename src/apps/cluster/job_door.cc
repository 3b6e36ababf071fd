// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/job_door.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "apps/daemon/job_view.h"
#include "doors/admin/codec_cluster.h"
#include "model/mount_entry.h"
#include "peer/job_orders.h"
#include "peer/peer_error.h"
#include "peer/peer_terms.h"
#include "telemetry/log.h"

namespace leat {
namespace {

bool may_see(const Principal& who, const ClusterJob& job) {
  return who.name == job.principal || who.rights.may(job.order.path, Right::kJobs);
}

std::string_view without_slash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

ClusterJobView cluster_job_view(const ClusterJob& job) {
  ClusterJobView view{.job = job_view(job.info),
                      .principal = job.principal,
                      .worker = job.worker,
                      .begun = job.begun,
                      .repeat = {.every_seconds = static_cast<uint64_t>(job.repeat.every.count()),
                                 .on_change = job.repeat.on_change,
                                 .on_mount = job.repeat.on_mount},
                      .runs = job.runs,
                      .ending = job.cancel && job.info.state != JobState::kCancelled};
  if (!job.ended() && job.worker.empty()) view.job.state = "waiting";
  return view;
}

Result<ClusterOrder> cluster_order_of(const ClusterJobRequest& request) {
  ClusterOrder wanted;
  LEAT_TRY(wanted.order, order_of(request.job));
  wanted.repeat = {.every = std::chrono::seconds(request.repeat.every_seconds),
                   .on_change = request.repeat.on_change,
                   .on_mount = request.repeat.on_mount};
  return wanted;
}

std::optional<std::string> missing_right(const Rights& rights, const JobOrder& order) {
  // A verification covers the whole cache.
  const std::string& path = order.kind == JobKind::kVerify ? "/" : order.path;
  if (!rights.may(path, Right::kJobs)) return fmt::format("'jobs' on {}", path);
  if (order.kind != JobKind::kCopy) return std::nullopt;
  if (!rights.may(path, Right::kRead)) return fmt::format("'read' on {}", path);
  const std::string_view to = without_slash(order.output);
  if (!to.starts_with('/')) {
    // A copy to a URL could write to any store with the workers' credentials.
    if (rights.may("/", Right::kAdmin)) return std::nullopt;
    return "'admin' on /, to copy out of the namespace";
  }
  if (rights.may(to, Right::kWrite)) return std::nullopt;
  return fmt::format("'write' on {}", to);
}

void JobDoor::add_to(HttpRouter& router) {
  const std::string one = std::string(kJobsPath) + "/{id}";
  router.add("POST", kJobsPath, this, &JobDoor::start);
  router.add("GET", kJobsPath, this, &JobDoor::list);
  router.add("GET", one, this, &JobDoor::show);
  router.add("DELETE", one, this, &JobDoor::cancel);
}

// A worker that has just started has no book yet: the client must use another one.
JobDoor::Asked JobDoor::admit(const HttpRequest& request) const {
  Asked asked{.who = nullptr, .book = book_, .refused = std::nullopt};
  asked.refused = door_.refuse_unsigned(request, &asked.who);
  if (!asked.refused && asked.book == nullptr) {
    asked.refused = peer_error_response(
        kHttpMisdirected, {StatusCode::kBusy, "this worker does not know the cluster's jobs yet"},
        0);
  }
  return asked;
}

HttpResponse JobDoor::answer(int status, const Json& document) const {
  HttpResponse response = HttpResponse::json(status, dump_json(document));
  put_epoch(map_.view()->ring.epoch(), response);
  return response;
}

HttpResponse JobDoor::failure(const Status& why) const {
  return peer_error_response(why, map_.view()->ring.epoch());
}

// A job that the principal may not see is reported as missing.
Result<ClusterJob> JobDoor::find(const Asked& asked, const HttpRequest& request) const {
  const std::string& text = request.params.at("id");
  uint64_t id = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return error(StatusCode::kInvalidArgument, fmt::format("'{}' is not a job's number", text));
  }
  LEAT_TRY(ClusterJob job, asked.book->find(id));
  if (may_see(*asked.who, job)) return job;
  return error(StatusCode::kNotFound, fmt::format("the cluster has no job {}", id));
}

Task<HttpResponse> JobDoor::start(Context context, HttpRequest request) {
  Asked asked = admit(request);
  if (asked.refused) co_return *std::move(asked.refused);
  Result<Json> json = parse_json(request.body, "the request's body");
  if (!json) co_return failure(json.error());
  Result<ClusterJobRequest> parsed = from_json<ClusterJobRequest>(*json);
  if (!parsed) co_return failure(parsed.error());
  Result<ClusterOrder> wanted = cluster_order_of(*parsed);
  if (!wanted) co_return failure(wanted.error());
  // Rights use normalised paths: another spelling is the same path.
  Result<> sound = check_cluster_order(wanted->order);
  if (!sound) co_return failure(sound.error());
  const Principal& who = *asked.who;
  if (const auto missing = missing_right(who.rights, wanted->order)) {
    log::warning("audit: {} ({}) may not order the {} of {}: the token has no {}", who.name,
                 request.peer, to_string(wanted->order.kind), wanted->order.path, *missing);
    co_return failure({StatusCode::kPermissionDenied,
                       fmt::format("{} may not order this {}; ask for a token that has the right "
                                   "{} ('leat cluster token')",
                                   who.name, to_string(wanted->order.kind), *missing)});
  }
  Result<ClusterJob> job = co_await asked.book->add(context, wanted->order, wanted->repeat,
                                                    who.name, request.query[kTicketMember]);
  if (!job) co_return failure(job.error());
  log::info("audit: {} ({}) orders job {} of the cluster, the {} of {}{}{}", who.name, request.peer,
            job->id, to_string(job->order.kind), job->order.path,
            job->order.output.empty() ? "" : " to ", job->order.output);
  co_return answer(202, to_json(cluster_job_view(*job)));
}

Task<HttpResponse> JobDoor::list(Context, HttpRequest request) {
  Asked asked = admit(request);
  if (asked.refused) co_return *std::move(asked.refused);
  Json jobs = Json::array();
  for (const ClusterJob& job : asked.book->jobs()) {
    if (may_see(*asked.who, job)) jobs.push_back(to_json(cluster_job_view(job)));
  }
  co_return answer(200, {{"jobs", std::move(jobs)}});
}

Task<HttpResponse> JobDoor::show(Context, HttpRequest request) {
  Asked asked = admit(request);
  if (asked.refused) co_return *std::move(asked.refused);
  Result<ClusterJob> job = find(asked, request);
  if (!job) co_return failure(job.error());
  co_return answer(200, to_json(cluster_job_view(*job)));
}

Task<HttpResponse> JobDoor::cancel(Context context, HttpRequest request) {
  Asked asked = admit(request);
  if (asked.refused) co_return *std::move(asked.refused);
  Result<ClusterJob> job = find(asked, request);
  if (!job) co_return failure(job.error());
  const uint64_t id = job->id;
  job = co_await asked.book->cancel(context, id);
  if (!job) co_return failure(job.error());
  log::info("audit: {} ({}) ends job {} of the cluster", asked.who->name, request.peer, id);
  co_return answer(200, to_json(cluster_job_view(*job)));
}

}  // namespace leat
