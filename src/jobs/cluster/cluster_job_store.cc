// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/cluster_job_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "cluster/registry_cache.h"
#include "jobs/copy_job.h"
#include "model/file_filter.h"
#include "model/mount_entry.h"
#include "runtime/shared_promise.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kPollInterval = std::chrono::seconds(1);
// A spec stays in the registry as long as its job.
constexpr size_t kSpecBytesMax = 256 * 1024;
constexpr int kAttempts = 10;

// After its end a load rests: its readers may go on, and what did not fit is not loaded again.
constexpr auto kEpochRestMin = std::chrono::seconds(60);
constexpr int kEpochRestTimes = 10;  // times its duration

// A worker reports the readers of a load at most so often, however many clients it has.
constexpr Clock::duration kReportEvery = std::chrono::seconds(5);

// Whether `load` loads the tree of `wanted`, a background load, or has done so a short time ago.
// Compares wall clocks of hosts: a difference makes a load run too often or too late.
bool covers_epoch(const ClusterJob& load, const ClusterJob& wanted) {
  if (!is_epoch_load(load.spec) || !is_at_or_below(wanted.spec.path, load.spec.path)) return false;
  if (!load.ended()) return true;
  // Its readers had gone, and are here again. A load that a user has cancelled rests.
  if (load.info.state == JobState::kCancelled && !load.cancel) return false;
  const auto took = std::chrono::duration_cast<WallTime::duration>(load.info.duration);
  const auto rest = std::max<WallTime::duration>(kEpochRestMin, kEpochRestTimes * took);
  return wanted.info.started < load.info.started + took + rest;
}

class ClusterJobStoreImpl : public ClusterJobStore {
 public:
  explicit ClusterJobStoreImpl(Registry& registry) : registry_(registry) {}

  void begin(Executor& executor) {
    RegistryCacheOptions options;
    options.changed = [this](const RegistryView& view) { on_view(view); };
    registry_cache_ =
        RegistryCache::start(registry_, std::string(kClusterJobKeys), std::move(options), executor);
  }

  std::vector<ClusterJob> jobs() const override {
    std::lock_guard lock(mutex_);
    return jobs_;
  }
  Result<ClusterJob> find(uint64_t id) const override {
    std::lock_guard lock(mutex_);
    auto found = std::ranges::find(jobs_, id, &ClusterJob::id);
    if (found != jobs_.end()) return *found;
    return error(StatusCode::kNotFound, fmt::format("the cluster has no job {}", id));
  }
  Task<> wait_for_change(Context context, RegistryRevision* seen) override;
  Task<Result<ClusterJob>> add(Context context, JobSpec spec, JobSchedule schedule,
                               std::string principal, std::string idempotency_key) override;
  Task<Result<ClusterJob>> cancel(Context context, uint64_t id) override;
  Task<> stop() override { return registry_cache_->stop(); }

 private:
  void on_view(const RegistryView& view);
  Task<> wait_until_seen(Context context, RegistryRevision revision);
  std::optional<ClusterJob> reported_lately(const ClusterJob& wanted) const;
  Task<Result<bool>> report_readers(Context context, ClusterJob load);

  Registry& registry_;
  std::unique_ptr<RegistryCache> registry_cache_;
  mutable std::mutex mutex_;  // leaf
  RegistryRevision revision_ = 0;
  std::vector<ClusterJob> jobs_;
  std::map<uint64_t, Clock::time_point> reported_;  // by this worker, lately
  std::shared_ptr<SharedPromise<bool>> next_ = SharedPromise<bool>::make();
};

void ClusterJobStoreImpl::on_view(const RegistryView& view) {
  std::vector<ClusterJob> jobs;
  for (const RegistryEntry& entry : view.entries) {
    Result<ClusterJob> job = decode_cluster_job(entry.value);
    if (!job) {
      log::warning("{} is skipped: {}", entry.key, job.error().to_string());
      continue;
    }
    job->revision = entry.changed;
    jobs.push_back(*std::move(job));
  }
  std::shared_ptr<SharedPromise<bool>> waiters = SharedPromise<bool>::make();
  {
    std::lock_guard lock(mutex_);
    jobs_ = std::move(jobs);
    revision_ = view.revision;
    std::swap(waiters, next_);
  }
  waiters->set(true);
}

Task<> ClusterJobStoreImpl::wait_for_change(Context context, RegistryRevision* seen) {
  std::shared_ptr<SharedPromise<bool>> next;
  {
    std::lock_guard lock(mutex_);
    if (*seen == revision_) next = next_;
  }
  if (next != nullptr) {
    auto changed = co_await next->wait(context.with_timeout(kPollInterval), "a change of jobs");
    static_cast<void>(changed);
  }
  std::lock_guard lock(mutex_);
  *seen = revision_;
}

// Waits until this worker has seen the write, so that its next query finds the job.
Task<> ClusterJobStoreImpl::wait_until_seen(Context context, RegistryRevision revision) {
  const Context bounded = context.with_timeout(2 * kPollInterval);
  RegistryRevision seen = 0;
  while (bounded.check("")) {
    co_await wait_for_change(bounded, &seen);
    if (seen >= revision) co_return;
  }
}

Task<Result<ClusterJob>> ClusterJobStoreImpl::add(Context context, JobSpec spec,
                                                  JobSchedule schedule, std::string principal,
                                                  std::string idempotency_key) {
  LEAT_CO_CHECK_OK(check_cluster_job_spec(spec));
  ClusterJob job{.spec = std::move(spec),
                 .schedule = schedule,
                 .principal = std::move(principal),
                 .idempotency_key = std::move(idempotency_key)};
  job.info.started =
      std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  job.info.kind = job.spec.kind;
  job.info.path = job.spec.path;
  if (job.spec.background) {
    if (std::optional<ClusterJob> known = reported_lately(job)) co_return *std::move(known);
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // Read the registry itself: numbers from the local copy may always be too old.
    Result<RegistryView> there = co_await registry_.list(context, std::string(kClusterJobKeys));
    if (!there) co_return Error(there.error());
    uint64_t last = 0;
    std::optional<ClusterJob> covering;
    for (const RegistryEntry& entry : there->entries) {
      // Includes records of a later version, which this one cannot decode.
      last = std::max(last, cluster_job_number(entry.key).value_or(0));
      Result<ClusterJob> known = decode_cluster_job(entry.value);
      if (!known) continue;
      if (!job.idempotency_key.empty() && known->idempotency_key == job.idempotency_key)
        co_return *known;
      known->revision = entry.changed;
      if (job.spec.background && covers_epoch(*known, job)) covering = *std::move(known);
    }
    if (covering) {
      Result<bool> reported = co_await report_readers(context, *covering);
      if (!reported) co_return Error(reported.error());
      if (*reported) co_return *std::move(covering);
      continue;
    }
    job.id = job.info.id = last + 1;
    std::string text = encode_cluster_job(job);
    if (text.size() > kSpecBytesMax) {
      co_return error(StatusCode::kInvalidArgument,
                      "the list of files is too long for a job of a cluster; name folders or "
                      "patterns, or give it in parts");
    }
    RegistryChange change{.conditions = {{cluster_job_key(job.id), 0}},
                          .puts = {{cluster_job_key(job.id), std::move(text)}}};
    Result<RegistryRevision> written = co_await registry_.commit(context, std::move(change));
    if (written) {
      co_await wait_until_seen(context, *written);
      co_return job;
    }
    if (written.error().code() != StatusCode::kVersionChanged) co_return Error(written.error());
  }
  co_return error(StatusCode::kBusy, "too many concurrent writes to the list of jobs; try again");
}

// Returns a load that needs no report now, by the local copy of the registry.
std::optional<ClusterJob> ClusterJobStoreImpl::reported_lately(const ClusterJob& wanted) const {
  std::lock_guard lock(mutex_);
  for (const ClusterJob& load : jobs_) {
    if (!covers_epoch(load, wanted)) continue;
    const auto reported = reported_.find(load.id);
    const bool lately =
        reported != reported_.end() && Clock::now() < reported->second + kReportEvery;
    if (lately || load.ended() || load.cancel) return load;
  }
  return std::nullopt;
}

// Records in the registry that the load has readers. Returns false if its record has changed since.
Task<Result<bool>> ClusterJobStoreImpl::report_readers(Context context, ClusterJob load) {
  if (load.ended() || load.cancel) co_return true;
  ++load.reports;
  const std::string key = cluster_job_key(load.id);
  RegistryChange change{.conditions = {{key, load.revision}},
                        .puts = {{key, encode_cluster_job(load)}}};
  Result<RegistryRevision> written = co_await registry_.commit(context, std::move(change));
  if (!written && written.error().code() != StatusCode::kVersionChanged) {
    co_return Error(written.error());
  }
  if (!written) co_return false;
  std::lock_guard lock(mutex_);
  reported_[load.id] = Clock::now();
  std::erase_if(reported_,
                [](const auto& one) { return Clock::now() > one.second + 2 * kReportEvery; });
  co_return true;
}

Task<Result<ClusterJob>> ClusterJobStoreImpl::cancel(Context context, uint64_t id) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<ClusterJob> job = find(id);
    if (!job || job->cancel || (job->ended() && !job->is_recurring())) co_return job;
    ClusterJob wanted = *job;
    wanted.cancel = true;
    RegistryChange change{.conditions = {{cluster_job_key(id), job->revision}},
                          .puts = {{cluster_job_key(id), encode_cluster_job(wanted)}}};
    Result<RegistryRevision> written = co_await registry_.commit(context, std::move(change));
    if (written) co_return job;
    if (written.error().code() != StatusCode::kVersionChanged) co_return Error(written.error());
    // The leader has written progress meanwhile.
    RegistryRevision seen = job->revision;
    co_await wait_for_change(context, &seen);
  }
  co_return error(StatusCode::kBusy,
                  fmt::format("too many concurrent writes to job {}; try again", id));
}

}  // namespace

bool is_epoch_load(const JobSpec& spec) {
  return spec.kind == JobKind::kLoad && spec.background && spec.selection == FileSelection() &&
         !spec.verify && spec.bandwidth == 0 && spec.requests == 0;
}

Result<> check_cluster_job_spec(JobSpec& spec) {
  LEAT_TRY(spec.path, normalise_path(spec.path));
  LEAT_TRY(const FileFilter filter, FileFilter::make(spec.selection));
  static_cast<void>(filter);
  if (spec.kind == JobKind::kCopy) {
    LEAT_TRY(spec.output, check_copy(spec.path, spec.output));
    return {};
  }
  const bool known =
      spec.kind == JobKind::kLoad || spec.kind == JobKind::kFree || spec.kind == JobKind::kVerify;
  if (known) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("{} is no job of a cluster; there are load, free, verify and copy",
                           to_string(spec.kind)));
}

std::unique_ptr<ClusterJobStore> ClusterJobStore::start(Registry& registry, Executor& executor) {
  auto store = std::make_unique<ClusterJobStoreImpl>(registry);
  store->begin(executor);
  return store;
}

}  // namespace leat
