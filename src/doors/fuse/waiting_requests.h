// SPDX-License-Identifier: Apache-2.0
// WaitingRequest: a kernel request that was not answered in place, while a coroutine works on it.
// Its Context is cancelled when the caller must end. WaitingRequests is the set of a server's
// requests, so that the server ends only after all are answered.
//
// The kernel interrupts a request for any signal of its caller, and only once. Most signals do not
// end a program (profilers' timers, Go's SIGURG), and programs do not expect EINTR from a file. So
// after the interrupt the caller is polled until it has its answer or a signal that ends it.
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

#include "doors/fuse/libfuse.h"
#include "doors/fuse/request_mark.h"
#include "doors/fuse/request_trace.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

class WaitingRequests;

class WaitingRequest {
 public:
  WaitingRequest(WaitingRequests& all, Executor& executor, fuse_req_t request,
                 std::unique_ptr<RequestTrace> trace = nullptr);
  ~WaitingRequest();
  WaitingRequest(const WaitingRequest&) = delete;

  Context context() const {
    const Context context = Context::background().with_cancel(stop_.get_token());
    return trace_ == nullptr ? context : context.with_trace(trace_->trace());
  }
  // Records why the answer will be an error.
  void failed(const Status& status) {
    if (trace_ != nullptr) trace_->failed(status);
  }
  // Returns the kernel's number of the request; 0 if unknown.
  uint64_t unique() const { return unique_; }
  // Call once, last: returns the request, for exactly one fuse_reply call.
  fuse_req_t answer();

 private:
  friend class WaitingRequests;
  static void interrupted(fuse_req_t request, void* self);
  static Task<> watch(pid_t caller, std::stop_source stop, std::stop_token answered);

  WaitingRequests& all_;
  Executor& executor_;
  fuse_req_t request_;
  const pid_t caller_;
  const uint64_t unique_ = current_unique;
  const std::unique_ptr<RequestTrace> trace_;  // null: not measured
  std::stop_source stop_;
  std::stop_source answered_;
};

class WaitingRequests {
 public:
  std::unique_ptr<WaitingRequest> add(Executor& executor, fuse_req_t request,
                                      std::unique_ptr<RequestTrace> trace = nullptr) {
    return std::make_unique<WaitingRequest>(*this, executor, request, std::move(trace));
  }
  // Cancels the present requests and all later ones.
  void cancel_all();
  void wait_until_none();
  // The same for at most `patience`; returns true if there are none.
  bool wait_until_none(std::chrono::milliseconds patience);
  uint64_t size() const;

 private:
  friend class WaitingRequest;

  mutable std::mutex mutex_;
  std::condition_variable none_left_;
  std::unordered_set<WaitingRequest*> requests_;
  bool cancelled_ = false;
};

}  // namespace leat
