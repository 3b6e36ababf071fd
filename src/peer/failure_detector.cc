// SPDX-License-Identifier: Apache-2.0
#include "peer/failure_detector.h"

#include <algorithm>
#include <vector>

namespace leat {

std::shared_ptr<FailureDetector> FailureDetector::make(FailureDetectorOptions options, Ping ping,
                                                       Executor& executor) {
  return std::shared_ptr<FailureDetector>(new FailureDetector(options, std::move(ping), executor));
}

FailureDetector::Request::Request(std::shared_ptr<FailureDetector> detector, Clock::duration grace)
    : detector_(std::move(detector)) {
  bool start = false;
  {
    std::lock_guard lock(detector_->mutex_);
    detector_->in_flight_.emplace_back();
    entry_ = std::prev(detector_->in_flight_.end());
    entry_->since = Clock::now() + grace;
    detector_->used_ = true;
    start = !std::exchange(detector_->scanning_, true);
  }
  if (start && !detector_->spawner_.spawn(scan_loop(detector_))) {
    std::lock_guard lock(detector_->mutex_);
    detector_->scanning_ = false;
  }
}

FailureDetector::Request::~Request() {
  forward_cancel_.reset();
  std::lock_guard lock(detector_->mutex_);
  detector_->in_flight_.erase(entry_);
}

Context FailureDetector::Request::context(const Context& of_caller) {
  std::stop_source stop = entry_->stop;
  forward_cancel_.emplace(of_caller.cancel, [stop]() mutable { stop.request_stop(); });
  return of_caller.with_cancel(stop.get_token());
}

std::optional<bool> FailureDetector::scan() {
  std::lock_guard lock(mutex_);
  if (in_flight_.empty()) {
    if (std::exchange(used_, false)) return false;
    scanning_ = false;
    return std::nullopt;
  }
  const Clock::time_point late = Clock::now() - options_.ping_after;
  return std::ranges::any_of(in_flight_, [&](const InFlight& one) { return one.since <= late; });
}

// The cancelled coroutines resume on their executors, so none of their code runs under the lock.
void FailureDetector::cancel_late() {
  std::vector<std::stop_source> ended;
  {
    std::lock_guard lock(mutex_);
    const Clock::time_point late = Clock::now() - options_.ping_after;
    for (InFlight& one : in_flight_) {
      if (one.since > late) continue;
      one.failed = true;
      ended.push_back(one.stop);
    }
  }
  for (std::stop_source& one : ended) one.request_stop();
}

Task<> FailureDetector::scan_loop(std::shared_ptr<FailureDetector> self) {
  while (true) {
    co_await sleep_uncancellable(self->options_.scan_interval);
    const std::optional<bool> late = self->scan();
    if (!late) co_return;
    if (!*late) continue;
    Result<> ping = co_await self->ping_();
    if (!ping) self->cancel_late();
  }
}

}  // namespace leat
