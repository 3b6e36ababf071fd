// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/pending_requests.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/check.h"

namespace leat {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(100);

constexpr uint64_t set_of(std::initializer_list<int> signals) {
  uint64_t set = 0;
  for (int signal : signals) set |= uint64_t{1} << (signal - 1);
  return set;
}

// Signals that request a program to end, or to return to its prompt.
constexpr uint64_t kEnding = set_of({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL});
// Signals that end nothing if they are not caught.
constexpr uint64_t kHarmless =
    set_of({SIGCHLD, SIGURG, SIGWINCH, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU});

// Returns true if a pending signal ends the thread, or requests its end unless `is_patient`. A
// thread that cannot be seen (exited, or in another pid namespace) counts as ended.
bool must_end(pid_t thread, bool is_patient) {
  std::ifstream status(fmt::format("/proc/{}/status", thread));
  bool seen = false;
  uint64_t pending = 0, held = 0, caught = 0;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("Sig") && !line.starts_with("ShdPnd:")) continue;
    const uint64_t set = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16);
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) {
      seen = true;
      pending |= set;
    } else if (line.starts_with("SigBlk:") || line.starts_with("SigIgn:")) {
      held |= set;
    } else if (line.starts_with("SigCgt:")) {
      caught = set;
    }
  }
  const uint64_t effective = pending & ~held;
  const uint64_t requests = is_patient ? 0 : effective & kEnding;
  return !seen || requests != 0 || (effective & ~caught & ~kHarmless) != 0;
}

}  // namespace

PendingRequest::PendingRequest(PendingRequests& all, Executor& executor, fuse_req_t request,
                               std::unique_ptr<RequestTrace> trace, SignalPatience patience)
    : all_(all),
      executor_(executor),
      request_(request),
      caller_(request == nullptr ? 0 : fuse_req_ctx(request)->pid),
      patience_(patience),
      trace_(std::move(trace)) {
  bool cancelled;
  {
    std::lock_guard lock(all_.mutex_);
    all_.requests_.insert(this);
    cancelled = all_.cancelled_;
  }
  if (cancelled) stop_.request_stop();
  fuse_req_interrupt_func(request_, &PendingRequest::interrupted, this);
}

PendingRequest::~PendingRequest() {
  LEAT_CHECK(request_ == nullptr);  // a request without an answer hangs its program
  answered_.request_stop();
  std::lock_guard lock(all_.mutex_);
  all_.requests_.erase(this);
  if (all_.requests_.empty()) all_.none_left_.notify_all();
}

fuse_req_t PendingRequest::answer() {
  // Waits for a running interrupted(), which uses this object.
  fuse_req_interrupt_func(request_, nullptr, nullptr);
  if (trace_ != nullptr) trace_->finish();
  return std::exchange(request_, nullptr);
}

void PendingRequest::interrupted(fuse_req_t, void* data) {
  auto* self = static_cast<PendingRequest*>(data);
  // libfuse holds the request's lock here, which answer() takes: code woken by the stop must not
  // run inside this call.
  self->executor_.spawn(
      watch(self->caller_, self->patience_, self->stop_, self->answered_.get_token()));
}

Task<> PendingRequest::watch(pid_t caller, SignalPatience patience, std::stop_source stop,
                             std::stop_token answered) {
  const Context until_answered = Context::background().with_cancel(answered);
  const Clock::time_point began = Clock::now();
  while (!must_end(caller, Clock::now() - began < patience)) {
    if (!co_await sleep_for(until_answered, kPollInterval)) co_return;
  }
  stop.request_stop();
}

void PendingRequests::cancel_all() {
  std::vector<std::stop_source> stops;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (PendingRequest* request : requests_) stops.push_back(request->stop_);
  }
  for (std::stop_source& stop : stops) stop.request_stop();
}

void PendingRequests::wait_until_none() {
  std::unique_lock lock(mutex_);
  none_left_.wait(lock, [this] { return requests_.empty(); });
}

bool PendingRequests::wait_until_none(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return none_left_.wait_for(lock, timeout, [this] { return requests_.empty(); });
}

uint64_t PendingRequests::size() const {
  std::lock_guard lock(mutex_);
  return requests_.size();
}

}  // namespace leat
