// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster_epoch_loads.h"

#include <algorithm>
#include <utility>

#include "frontends/admin/codec_cluster.h"
#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr int kRestTimes = 10;  // a load's duration

bool is_open(const JobView& job) {
  return job.state == "waiting" || job.state == "running";
}

}  // namespace

bool ClusterEpochLoads::on_epoch(const std::string& path) {
  std::optional<Tree> tree = resolve_(path);
  if (!tree) return local_.on_epoch(path);
  // During an upgrade an older worker would take the report for an ordinary load.
  const ClusterViewPtr view = tree->client->views().view();
  const bool supported = std::ranges::all_of(
      view->workers, [](const auto& one) { return one.second.supports_epoch_loads(); });
  if (!supported) return false;
  auto holder = gate_.enter();
  if (!holder) return false;
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex_);
  std::erase_if(reported_,
                [&](const auto& one) { return now > one.second.next + options_.rest_min; });
  for (const auto& [other, reported] : reported_) {
    if (is_at_or_below(path, other) && now < reported.next) return !reported.resting;
  }
  reported_[path] = {.next = now + options_.report_every};
  executor_.spawn(report(*std::move(holder), path, *std::move(tree)));
  return true;
}

Task<> ClusterEpochLoads::report(Gate::Holder, std::string path, Tree tree) {
  const Context context = Context::background()
                              .with_cancel(stopping_.get_token())
                              .with_timeout(options_.report_timeout);
  const ClusterJobRequest load{.job = {.kind = "load", .path = tree.path, .background = true},
                               .schedule = {}};
  Result<std::string> answer =
      co_await tree.client->request_jobs(context, "POST", "", dump_json(to_json(load)));
  Result<Json> json =
      answer ? parse_json(*answer, "a worker's response") : Result<Json>(Error(answer.error()));
  Result<ClusterJobView> job =
      json ? from_json<ClusterJobView>(*json) : Result<ClusterJobView>(Error(json.error()));
  if (!job) {
    log::info("{} is read at random, and the cluster does not load it: {}", path,
              job.error().to_string());
    // The next report tries again, unless the token lacks the right.
    if (job.error().code() == StatusCode::kPermissionDenied) rest(path, {});
  } else if (!is_open(job->job)) {
    rest(path, std::chrono::duration_cast<Clock::duration>(
                   std::chrono::duration<double>(job->job.seconds)));
  }
}

void ClusterEpochLoads::rest(const std::string& path, Clock::duration took) {
  const Clock::duration rest = std::max(options_.rest_min, kRestTimes * took);
  std::lock_guard lock(mutex_);
  reported_[path] = {.next = Clock::now() + rest, .resting = true};
}

Task<> ClusterEpochLoads::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
}

}  // namespace leat
