// SPDX-License-Identifier: Apache-2.0
// PendingRequest: a kernel request that was not answered inline, while a coroutine works on it.
// Its Context is cancelled when the caller must end. PendingRequests is the set of a server's
// requests, so that the server ends only after all are answered.
//
// The kernel interrupts a request for any signal of its caller, and only once. Most signals do not
// end a program (profilers' timers, Go's SIGURG), and programs do not expect EINTR from a file. So
// after the interrupt the caller is polled until it has its answer or a signal that ends it. A
// change goes on for a signal that the program handles, as on a local disk.
//
// A coroutine takes it as its first parameter, so that it is destroyed last, after all objects of
// the coroutine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <unordered_set>

#include "frontends/fuse/libfuse.h"
#include "frontends/fuse/request_id.h"
#include "frontends/fuse/request_trace.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

class PendingRequests;

// For how long a request goes on after a signal that requests its program to end, if that handles
// it. One that ends the program ends the request at once.
using SignalPatience = Clock::duration;

class PendingRequest {
 public:
  PendingRequest(PendingRequests& all, Executor& executor, fuse_req_t request,
                 std::unique_ptr<RequestTrace> trace = nullptr, SignalPatience patience = {});
  ~PendingRequest();
  PendingRequest(const PendingRequest&) = delete;

  Context context() const {
    const Context context = Context::background().with_cancel(stop_.get_token());
    return trace_ == nullptr ? context : context.with_trace(trace_->trace());
  }
  // Records why the answer will be an error.
  void set_failure(const Status& status) {
    if (trace_ != nullptr) trace_->set_failure(status);
  }
  // Returns the kernel's number of the request; 0 if unknown.
  uint64_t unique() const { return unique_; }
  // Call once, last: returns the request, for exactly one fuse_reply call.
  fuse_req_t answer();

 private:
  friend class PendingRequests;
  static void interrupted(fuse_req_t request, void* self);
  static Task<> watch(pid_t caller, SignalPatience patience, std::stop_source stop,
                      std::stop_token answered);

  PendingRequests& all_;
  Executor& executor_;
  fuse_req_t request_;
  const pid_t caller_;
  const SignalPatience patience_;
  const uint64_t unique_ = current_unique;
  const std::unique_ptr<RequestTrace> trace_;  // null: not measured
  std::stop_source stop_;
  std::stop_source answered_;
};

class PendingRequests {
 public:
  std::unique_ptr<PendingRequest> add(Executor& executor, fuse_req_t request,
                                      std::unique_ptr<RequestTrace> trace = nullptr,
                                      SignalPatience patience = {}) {
    return std::make_unique<PendingRequest>(*this, executor, request, std::move(trace), patience);
  }
  // Cancels the present requests and all later ones.
  void cancel_all();
  void wait_until_none();
  // The same for at most `timeout`; returns true if there are none.
  bool wait_until_none(std::chrono::milliseconds timeout);
  uint64_t size() const;

 private:
  friend class PendingRequest;

  mutable std::mutex mutex_;
  std::condition_variable none_left_;
  std::unordered_set<PendingRequest*> requests_;
  bool cancelled_ = false;
};

}  // namespace leat
