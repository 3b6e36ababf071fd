// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/verify_runs.h"

#include <utility>

namespace leat {
namespace {

constexpr Clock::duration kMoment = std::chrono::seconds(2);
// Without requests the job or its leader has ended.
constexpr Clock::duration kForgotten = std::chrono::minutes(1);
constexpr size_t kRunsMax = 16;  // kept in memory

}  // namespace

// `begun` stays empty if the run exists.
Result<VerifyRuns::RunPtr> VerifyRuns::run_of(uint64_t job, std::optional<Activity::Token>* begun) {
  std::lock_guard lock(mutex_);
  if (auto found = runs_.find(job); found != runs_.end()) return found->second;
  for (auto at = runs_.begin(); at != runs_.end() && runs_.size() >= kRunsMax;) {
    at = at->second->ended->ready() ? runs_.erase(at) : std::next(at);
  }
  if (runs_.size() >= kRunsMax) {
    return error(StatusCode::kBusy, "this worker verifies its cache for too many jobs already");
  }
  *begun = activity_.enter();
  if (!*begun) return error(StatusCode::kCancelled, "this worker is ending");
  auto run = std::make_shared<Run>();
  run->asked = Clock::now();
  runs_.emplace(job, run);
  return run;
}

Task<Result<UpkeepVerify>> VerifyRuns::look(Context context, uint64_t job) {
  std::optional<Activity::Token> begun;
  Result<RunPtr> run = run_of(job, &begun);
  if (!run) co_return Error(run.error());
  if (begun) {
    const CacheTarget::Content content = co_await target_.content(context, job);
    const UpkeepVerify first{.objects_total = content.objects, .bytes_total = content.bytes};
    {
      std::lock_guard lock((*run)->mutex);
      (*run)->state = first;
    }
    executor_.spawn(verify(*std::move(begun), &target_, *run, job));
    co_return first;
  }
  {
    std::lock_guard lock((*run)->mutex);
    (*run)->asked = Clock::now();
  }
  // A timeout only means that it has not ended.
  auto ended = co_await (*run)->ended->wait(context.with_timeout(kMoment), "a look at the cache");
  static_cast<void>(ended);
  std::lock_guard lock((*run)->mutex);
  co_return (*run)->state;
}

Task<> VerifyRuns::verify(Activity::Token, CacheTarget* target, RunPtr run, uint64_t job) {
  auto listener = [&run](const VerifyStep& step) {
    std::lock_guard lock(run->mutex);
    run->state.objects += step.objects;
    run->state.bytes += step.bytes;
    run->state.corrupt_blocks += step.corrupt_blocks;
    if (Clock::now() - run->asked > kForgotten) run->stopping.request_stop();
  };
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  Result<> verified = co_await target->verify(context, job, std::move(listener));
  {
    std::lock_guard lock(run->mutex);
    run->state.ended = true;
    if (!verified) run->state.trouble = verified.error().to_string();
  }
  run->ended->set(true);
}

Task<> VerifyRuns::stop() {
  activity_.close();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [job, run] : runs_) run->stopping.request_stop();
  }
  co_await activity_.wait_idle();
}

}  // namespace leat
