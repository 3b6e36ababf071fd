// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/cluster_job_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cluster/registry_mirror.h"
#include "jobs/copy_job.h"
#include "model/file_filter.h"
#include "model/mount_entry.h"
#include "runtime/shared_result.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kSoon = std::chrono::seconds(1);
// An order stays in the registry as long as its job.
constexpr size_t kOrderBytesMax = 256 * 1024;
constexpr int kAttempts = 10;

class ClusterJobBookImpl : public ClusterJobBook {
 public:
  explicit ClusterJobBookImpl(Registry& registry) : registry_(registry) {}

  void begin(Executor& executor) {
    RegistryMirrorOptions options;
    options.changed = [this](const RegistryView& view) { take(view); };
    mirror_ = RegistryMirror::start(registry_, std::string(kClusterJobKeys), std::move(options),
                                    executor);
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
  Task<> changed(Context context, RegistryRevision* seen) override;
  Task<Result<ClusterJob>> add(Context context, JobOrder order, JobRepeat repeat,
                               std::string principal, std::string ticket) override;
  Task<Result<ClusterJob>> cancel(Context context, uint64_t id) override;
  Task<> stop() override { return mirror_->stop(); }

 private:
  void take(const RegistryView& view);
  Task<> seen_here(Context context, RegistryRevision revision);

  Registry& registry_;
  std::unique_ptr<RegistryMirror> mirror_;
  mutable std::mutex mutex_;  // leaf
  RegistryRevision revision_ = 0;
  std::vector<ClusterJob> jobs_;
  std::shared_ptr<SharedResult<bool>> next_ = SharedResult<bool>::make();
};

void ClusterJobBookImpl::take(const RegistryView& view) {
  std::vector<ClusterJob> jobs;
  for (const RegistryEntry& entry : view.entries) {
    Result<ClusterJob> job = decode_cluster_job(entry.value);
    if (!job) {
      log::warning("{} is left alone: {}", entry.key, job.error().to_string());
      continue;
    }
    job->changed = entry.changed;
    jobs.push_back(*std::move(job));
  }
  std::shared_ptr<SharedResult<bool>> told = SharedResult<bool>::make();
  {
    std::lock_guard lock(mutex_);
    jobs_ = std::move(jobs);
    revision_ = view.revision;
    std::swap(told, next_);
  }
  told->set(true);
}

Task<> ClusterJobBookImpl::changed(Context context, RegistryRevision* seen) {
  std::shared_ptr<SharedResult<bool>> next;
  {
    std::lock_guard lock(mutex_);
    if (*seen == revision_) next = next_;
  }
  if (next != nullptr) {
    auto news = co_await next->wait(context.with_timeout(kSoon), "news of jobs");
    static_cast<void>(news);
  }
  std::lock_guard lock(mutex_);
  *seen = revision_;
}

// Waits until this worker has seen the write, so that its next query finds the job.
Task<> ClusterJobBookImpl::seen_here(Context context, RegistryRevision revision) {
  const Context patience = context.with_timeout(2 * kSoon);
  RegistryRevision seen = 0;
  while (patience.check("")) {
    co_await changed(patience, &seen);
    if (seen >= revision) co_return;
  }
}

Task<Result<ClusterJob>> ClusterJobBookImpl::add(Context context, JobOrder order, JobRepeat repeat,
                                                 std::string principal, std::string ticket) {
  LEAT_CO_CHECK_OK(check_cluster_order(order));
  ClusterJob job{.order = std::move(order),
                 .repeat = repeat,
                 .principal = std::move(principal),
                 .ticket = std::move(ticket)};
  job.info.started =
      std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  job.info.kind = job.order.kind;
  job.info.path = job.order.path;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // Read the registry itself: numbers from the local copy may always be too old.
    Result<RegistryView> there = co_await registry_.list(context, std::string(kClusterJobKeys));
    if (!there) co_return Error(there.error());
    uint64_t last = 0;
    for (const RegistryEntry& entry : there->entries) {
      // Includes records of a later version, which this one cannot decode.
      last = std::max(last, cluster_job_number(entry.key).value_or(0));
      Result<ClusterJob> known = decode_cluster_job(entry.value);
      if (known && !job.ticket.empty() && known->ticket == job.ticket) co_return *known;
    }
    job.id = job.info.id = last + 1;
    std::string text = encode_cluster_job(job);
    if (text.size() > kOrderBytesMax) {
      co_return error(StatusCode::kInvalidArgument,
                      "the list of files is too long for a job of a cluster; name folders or "
                      "patterns, or give it in parts");
    }
    RegistryChange change{.conditions = {{cluster_job_key(job.id), 0}},
                          .puts = {{cluster_job_key(job.id), std::move(text)}}};
    Result<RegistryRevision> written = co_await registry_.commit(context, std::move(change));
    if (written) {
      co_await seen_here(context, *written);
      co_return job;
    }
    if (written.error().code() != StatusCode::kChanged) co_return Error(written.error());
  }
  co_return error(StatusCode::kBusy, "others add jobs all the time; try again");
}

Task<Result<ClusterJob>> ClusterJobBookImpl::cancel(Context context, uint64_t id) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<ClusterJob> job = find(id);
    if (!job || job->cancel || (job->ended() && !job->stands())) co_return job;
    ClusterJob wanted = *job;
    wanted.cancel = true;
    RegistryChange change{.conditions = {{cluster_job_key(id), job->changed}},
                          .puts = {{cluster_job_key(id), encode_cluster_job(wanted)}}};
    Result<RegistryRevision> written = co_await registry_.commit(context, std::move(change));
    if (written) co_return job;
    if (written.error().code() != StatusCode::kChanged) co_return Error(written.error());
    // The leader has written progress meanwhile.
    RegistryRevision seen = job->changed;
    co_await changed(context, &seen);
  }
  co_return error(StatusCode::kBusy, fmt::format("job {} changes all the time; try again", id));
}

}  // namespace

Result<> check_cluster_order(JobOrder& order) {
  LEAT_TRY(order.path, normalise_path(order.path));
  LEAT_TRY(const FileFilter filter, FileFilter::make(order.selection));
  static_cast<void>(filter);
  if (order.kind == JobKind::kCopy) {
    LEAT_TRY(order.output, check_copy(order.path, order.output));
    return {};
  }
  const bool known = order.kind == JobKind::kLoad || order.kind == JobKind::kFree ||
                     order.kind == JobKind::kVerify;
  if (known) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("{} is no job of a cluster; there are load, free, verify and copy",
                           to_string(order.kind)));
}

std::unique_ptr<ClusterJobBook> ClusterJobBook::start(Registry& registry, Executor& executor) {
  auto book = std::make_unique<ClusterJobBookImpl>(registry);
  book->begin(executor);
  return book;
}

}  // namespace leat
