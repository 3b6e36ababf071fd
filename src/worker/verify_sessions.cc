// SPDX-License-Identifier: Apache-2.0
#include "worker/verify_sessions.h"

#include <utility>

namespace leat {
namespace {

constexpr Clock::duration kPollTimeout = std::chrono::seconds(2);
// Without requests the job or its leader has ended.
constexpr Clock::duration kIdleTimeout = std::chrono::minutes(1);
constexpr size_t kSessionsMax = 16;  // kept in memory

}  // namespace

// `begun` stays empty if the session exists.
Result<VerifySessions::SessionPtr> VerifySessions::session_of(uint64_t job,
                                                              std::optional<Gate::Holder>* begun) {
  std::lock_guard lock(mutex_);
  if (auto found = sessions_.find(job); found != sessions_.end()) return found->second;
  for (auto at = sessions_.begin(); at != sessions_.end() && sessions_.size() >= kSessionsMax;) {
    at = at->second->ended->ready() ? sessions_.erase(at) : std::next(at);
  }
  if (sessions_.size() >= kSessionsMax) {
    return error(StatusCode::kBusy, "this worker verifies its cache for too many jobs already");
  }
  *begun = gate_.enter();
  if (!*begun) return error(StatusCode::kCancelled, "this worker is ending");
  auto session = std::make_shared<Session>();
  session->last_poll_at = Clock::now();
  sessions_.emplace(job, session);
  return session;
}

Task<Result<VerifyProgress>> VerifySessions::poll(Context context, uint64_t job) {
  std::optional<Gate::Holder> begun;
  Result<SessionPtr> session = session_of(job, &begun);
  if (!session) co_return Error(session.error());
  if (begun) {
    const JobCache::Content content = co_await cache_.content(context, job);
    const VerifyProgress first{.objects_total = content.objects, .bytes_total = content.bytes};
    {
      std::lock_guard lock((*session)->mutex);
      (*session)->state = first;
    }
    executor_.spawn(verify(*std::move(begun), &cache_, *session, job));
    co_return first;
  }
  {
    std::lock_guard lock((*session)->mutex);
    (*session)->last_poll_at = Clock::now();
  }
  // A timeout only means that it has not ended.
  auto ended =
      co_await (*session)->ended->wait(context.with_timeout(kPollTimeout), "verifying the cache");
  static_cast<void>(ended);
  std::lock_guard lock((*session)->mutex);
  co_return (*session)->state;
}

Task<> VerifySessions::verify(Gate::Holder, JobCache* cache, SessionPtr session, uint64_t job) {
  auto listener = [&session](const VerifyStep& step) {
    std::lock_guard lock(session->mutex);
    session->state.objects += step.objects;
    session->state.bytes += step.bytes;
    session->state.corrupt_blocks += step.corrupt_blocks;
    if (Clock::now() - session->last_poll_at > kIdleTimeout) session->stopping.request_stop();
  };
  const Context context = Context::background().with_cancel(session->stopping.get_token());
  Result<> verified = co_await cache->verify(context, job, std::move(listener));
  {
    std::lock_guard lock(session->mutex);
    session->state.ended = true;
    if (!verified) session->state.error = verified.error().to_string();
  }
  session->ended->set(true);
}

Task<> VerifySessions::stop() {
  gate_.close();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [job, session] : sessions_) session->stopping.request_stop();
  }
  co_await gate_.wait_idle();
}

}  // namespace leat
