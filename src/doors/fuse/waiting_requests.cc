// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/waiting_requests.h"

#include <vector>

#include "base/check.h"

namespace leat {

WaitingRequest::WaitingRequest(WaitingRequests& all, Executor& executor, fuse_req_t request)
    : all_(all), executor_(executor), request_(request) {
  bool cancelled;
  {
    std::lock_guard lock(all_.mutex_);
    all_.requests_.insert(this);
    cancelled = all_.cancelled_;
  }
  if (cancelled) stop_.request_stop();
  fuse_req_interrupt_func(request_, &WaitingRequest::interrupted, this);
}

WaitingRequest::~WaitingRequest() {
  LEAT_CHECK(request_ == nullptr);  // a request that nobody answers hangs its program
  std::lock_guard lock(all_.mutex_);
  all_.requests_.erase(this);
  if (all_.requests_.empty()) all_.none_left_.notify_all();
}

fuse_req_t WaitingRequest::answer() {
  // Waits for an interrupted() that is running, which may not find us gone.
  fuse_req_interrupt_func(request_, nullptr, nullptr);
  return std::exchange(request_, nullptr);
}

void WaitingRequest::interrupted(fuse_req_t, void* data) {
  auto* self = static_cast<WaitingRequest*>(data);
  // libfuse holds the request's lock here, which answer() takes: whatever the stop wakes must not
  // run inside this call.
  self->executor_.post([stop = self->stop_]() mutable { stop.request_stop(); });
}

void WaitingRequests::cancel_all() {
  std::vector<std::stop_source> stops;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (WaitingRequest* request : requests_) stops.push_back(request->stop_);
  }
  for (std::stop_source& stop : stops) stop.request_stop();
}

void WaitingRequests::wait_until_none() {
  std::unique_lock lock(mutex_);
  none_left_.wait(lock, [this] { return requests_.empty(); });
}

uint64_t WaitingRequests::size() const {
  std::lock_guard lock(mutex_);
  return requests_.size();
}

}  // namespace leat
