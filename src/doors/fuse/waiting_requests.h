// SPDX-License-Identifier: Apache-2.0
// WaitingRequest: a request of the kernel that could not be answered in place, while a coroutine
// works on it: its Context, cancelled when the caller is to end. WaitingRequests is the set of a
// door's, so that the door can end only when all were answered.
//
// The kernel interrupts a request for any signal of its caller, and only once. Most signals do not
// end anything (profilers' timers, Go's SIGURG), and programs do not expect EINTR of a file; so
// from the interrupt on the caller is looked at, until it has its answer or a signal that ends it.
//
// A coroutine takes it as its first parameter, so that it goes last, after all that it worked with.
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
  // Why the answer will be an error.
  void failed(const Status& status) {
    if (trace_ != nullptr) trace_->failed(status);
  }
  // The kernel's number for it; 0 where that is not known.
  uint64_t unique() const { return unique_; }
  // Once, last: the request, for exactly one fuse_reply call.
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
  const std::unique_ptr<RequestTrace> trace_;  // null: nobody counts it
  std::stop_source stop_;
  std::stop_source answered_;
};

class WaitingRequests {
 public:
  std::unique_ptr<WaitingRequest> add(Executor& executor, fuse_req_t request,
                                      std::unique_ptr<RequestTrace> trace = nullptr) {
    return std::make_unique<WaitingRequest>(*this, executor, request, std::move(trace));
  }
  // Those under way and all that come later are cancelled.
  void cancel_all();
  void wait_until_none();
  // The same for at most `patience`; whether there are none.
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
