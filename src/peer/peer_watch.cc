// SPDX-License-Identifier: Apache-2.0
#include "peer/peer_watch.h"

#include <algorithm>
#include <vector>

namespace leat {

std::shared_ptr<PeerWatch> PeerWatch::make(PeerWatchOptions options, Ping ping,
                                           Executor& executor) {
  return std::shared_ptr<PeerWatch>(new PeerWatch(options, std::move(ping), executor));
}

PeerWatch::Request::Request(std::shared_ptr<PeerWatch> watch, Clock::duration grace)
    : watch_(std::move(watch)) {
  bool begin = false;
  {
    std::lock_guard lock(watch_->mutex_);
    watch_->waiting_.emplace_back();
    place_ = std::prev(watch_->waiting_.end());
    place_->since = Clock::now() + grace;
    watch_->used_ = true;
    begin = !std::exchange(watch_->looking_, true);
  }
  if (begin && !watch_->spawner_.spawn(look_after(watch_))) {
    std::lock_guard lock(watch_->mutex_);
    watch_->looking_ = false;
  }
}

PeerWatch::Request::~Request() {
  passes_on_.reset();
  std::lock_guard lock(watch_->mutex_);
  watch_->waiting_.erase(place_);
}

Context PeerWatch::Request::context(const Context& of_caller) {
  std::stop_source stop = place_->stop;
  passes_on_.emplace(of_caller.cancel, [stop]() mutable { stop.request_stop(); });
  return of_caller.with_cancel(stop.get_token());
}

std::optional<bool> PeerWatch::look() {
  std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    if (std::exchange(used_, false)) return false;
    looking_ = false;
    return std::nullopt;
  }
  const Clock::time_point late = Clock::now() - options_.patience;
  return std::ranges::any_of(waiting_, [&](const Waiting& one) { return one.since <= late; });
}

// The cancelled coroutines resume on their executors, so none of their code runs under the lock.
void PeerWatch::end_waiting() {
  std::vector<std::stop_source> ended;
  {
    std::lock_guard lock(mutex_);
    const Clock::time_point late = Clock::now() - options_.patience;
    for (Waiting& one : waiting_) {
      if (one.since > late) continue;
      one.dead = true;
      ended.push_back(one.stop);
    }
  }
  for (std::stop_source& one : ended) one.request_stop();
}

Task<> PeerWatch::look_after(std::shared_ptr<PeerWatch> self) {
  while (true) {
    co_await sleep_through(self->options_.look_every);
    const std::optional<bool> late = self->look();
    if (!late) co_return;
    if (!*late) continue;
    Result<> lives = co_await self->ping_();
    if (!lives) self->end_waiting();
  }
}

}  // namespace leat
