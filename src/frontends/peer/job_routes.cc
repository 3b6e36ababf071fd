// SPDX-License-Identifier: Apache-2.0
#include "frontends/peer/job_routes.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "frontends/admin/codec_cluster.h"
#include "frontends/admin/job_view.h"
#include "model/mount_entry.h"
#include "telemetry/log.h"
#include "wire/job_requests.h"
#include "wire/peer_error.h"
#include "wire/peer_request_header.h"

namespace leat {
namespace {

bool may_see(const Principal& who, const ClusterJob& job) {
  return who.name == job.principal || who.rights.may(job.spec.path, Right::kJobs);
}

std::string_view without_slash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

ClusterJobView cluster_job_view(const ClusterJob& job) {
  ClusterJobView view{
      .job = job_view(job.info),
      .principal = job.principal,
      .worker = job.worker,
      .starts = job.starts,
      .schedule = {.every_seconds = static_cast<uint64_t>(job.schedule.every.count()),
                   .on_change = job.schedule.on_change,
                   .on_mount = job.schedule.on_mount},
      .runs = job.runs,
      .cancelling = job.cancel && job.info.state != JobState::kCancelled};
  if (!job.ended() && job.worker.empty()) view.job.state = "waiting";
  return view;
}

Result<ClusterJobSpec> cluster_job_spec_of(const ClusterJobRequest& request) {
  ClusterJobSpec job_spec;
  LEAT_TRY(job_spec.spec, job_spec_of(request.job));
  job_spec.schedule = {.every = std::chrono::seconds(request.schedule.every_seconds),
                       .on_change = request.schedule.on_change,
                       .on_mount = request.schedule.on_mount};
  return job_spec;
}

std::optional<std::string> missing_right(const Rights& rights, const JobSpec& spec) {
  // A verification covers the whole cache.
  const std::string& path = spec.kind == JobKind::kVerify ? "/" : spec.path;
  // A load behind readers fetches what they may read, and at its lowest priority.
  if (is_epoch_load(spec) && rights.may(path, Right::kRead)) return std::nullopt;
  if (!rights.may(path, Right::kJobs)) return fmt::format("'jobs' on {}", path);
  if (spec.kind != JobKind::kCopy) return std::nullopt;
  if (!rights.may(path, Right::kRead)) return fmt::format("'read' on {}", path);
  const std::string_view to = without_slash(spec.output);
  if (!to.starts_with('/')) {
    // A copy to a URL could write to any store with the workers' credentials.
    if (rights.may("/", Right::kAdmin)) return std::nullopt;
    return "'admin' on /, to copy out of the namespace";
  }
  if (rights.may(to, Right::kWrite)) return std::nullopt;
  return fmt::format("'write' on {}", to);
}

void JobRoutes::add_to(HttpRouter& router) {
  const std::string one = std::string(kJobsPath) + "/{id}";
  router.add("POST", kJobsPath, this, &JobRoutes::start);
  router.add("GET", kJobsPath, this, &JobRoutes::list);
  router.add("GET", one, this, &JobRoutes::show);
  router.add("DELETE", one, this, &JobRoutes::cancel);
}

// A worker that has just started has no store of jobs yet: the client must use another one.
JobRoutes::Admission JobRoutes::admit(const HttpRequest& request) const {
  Admission admission{.principal = nullptr, .store = store_, .rejection = std::nullopt};
  admission.rejection = peer_server_.reject_unsigned(request, &admission.principal);
  if (!admission.rejection && admission.store == nullptr) {
    admission.rejection = peer_error_response(
        kHttpMisdirected,
        {StatusCode::kBusy, "this worker has not read the jobs of the cluster yet"}, 0);
  }
  return admission;
}

HttpResponse JobRoutes::response(int status, const Json& document) const {
  HttpResponse response = HttpResponse::json(status, dump_json(document));
  put_epoch(views_.view()->ring.epoch(), response);
  return response;
}

HttpResponse JobRoutes::failure(const Status& why) const {
  return peer_error_response(why, views_.view()->ring.epoch());
}

// A job that the principal may not see is reported as missing.
Result<ClusterJob> JobRoutes::find(const Admission& admission, const HttpRequest& request) const {
  const std::string& text = request.params.at("id");
  uint64_t id = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return error(StatusCode::kInvalidArgument, fmt::format("'{}' is not a job's number", text));
  }
  LEAT_TRY(ClusterJob job, admission.store->find(id));
  if (may_see(*admission.principal, job)) return job;
  return error(StatusCode::kNotFound, fmt::format("the cluster has no job {}", id));
}

Task<HttpResponse> JobRoutes::start(Context context, HttpRequest request) {
  Admission admission = admit(request);
  if (admission.rejection) co_return *std::move(admission.rejection);
  Result<Json> json = parse_json(request.body, "the request's body");
  if (!json) co_return failure(json.error());
  Result<ClusterJobRequest> parsed = from_json<ClusterJobRequest>(*json);
  if (!parsed) co_return failure(parsed.error());
  Result<ClusterJobSpec> job_spec = cluster_job_spec_of(*parsed);
  if (!job_spec) co_return failure(job_spec.error());
  // Rights use normalised paths: another spelling is the same path.
  Result<> sound = check_cluster_job_spec(job_spec->spec);
  if (!sound) co_return failure(sound.error());
  const Principal& who = *admission.principal;
  std::optional<std::string> missing = missing_right(who.rights, job_spec->spec);
  if (!missing && job_spec->schedule.any() && !who.rights.may(job_spec->spec.path, Right::kJobs)) {
    missing = fmt::format("'jobs' on {}", job_spec->spec.path);
  }
  if (missing) {
    log::warning("audit: {} ({}) may not start the {} of {}: the token has no {}", who.name,
                 request.peer, to_string(job_spec->spec.kind), job_spec->spec.path, *missing);
    co_return failure({StatusCode::kPermissionDenied,
                       fmt::format("{} may not start this {}; get a token that has the right "
                                   "{} ('leat cluster token')",
                                   who.name, to_string(job_spec->spec.kind), *missing)});
  }
  Result<ClusterJob> job = co_await admission.store->add(
      context, job_spec->spec, job_spec->schedule, who.name, request.query[kIdempotencyKeyMember]);
  if (!job) co_return failure(job.error());
  // A report of readers may be answered by an older load.
  const bool is_new = job->reports == 0 && !job->ended() && job->principal == who.name;
  if (is_new) {
    log::info("audit: {} ({}) starts job {} of the cluster, the {} of {}{}{}", who.name,
              request.peer, job->id, to_string(job->spec.kind), job->spec.path,
              job->spec.output.empty() ? "" : " to ", job->spec.output);
  }
  const ClusterJobView view = cluster_job_view(*job);
  if (may_see(who, *job)) co_return response(202, to_json(view));
  ClusterJobView state;
  state.job = {.id = view.job.id, .kind = view.job.kind, .state = view.job.state};
  state.job.seconds = view.job.seconds;
  co_return response(202, to_json(state));
}

Task<HttpResponse> JobRoutes::list(Context, HttpRequest request) {
  Admission admission = admit(request);
  if (admission.rejection) co_return *std::move(admission.rejection);
  Json jobs = Json::array();
  for (const ClusterJob& job : admission.store->jobs()) {
    if (may_see(*admission.principal, job)) jobs.push_back(to_json(cluster_job_view(job)));
  }
  co_return response(200, {{"jobs", std::move(jobs)}});
}

Task<HttpResponse> JobRoutes::show(Context, HttpRequest request) {
  Admission admission = admit(request);
  if (admission.rejection) co_return *std::move(admission.rejection);
  Result<ClusterJob> job = find(admission, request);
  if (!job) co_return failure(job.error());
  co_return response(200, to_json(cluster_job_view(*job)));
}

Task<HttpResponse> JobRoutes::cancel(Context context, HttpRequest request) {
  Admission admission = admit(request);
  if (admission.rejection) co_return *std::move(admission.rejection);
  Result<ClusterJob> job = find(admission, request);
  if (!job) co_return failure(job.error());
  const uint64_t id = job->id;
  job = co_await admission.store->cancel(context, id);
  if (!job) co_return failure(job.error());
  log::info("audit: {} ({}) cancels job {} of the cluster", admission.principal->name, request.peer,
            id);
  co_return response(200, to_json(cluster_job_view(*job)));
}

}  // namespace leat
