// SPDX-License-Identifier: Apache-2.0
// FailureDetector: separates a slow worker from a dead one. A long wait alone
// proves nothing: the worker's store may be slow. So it pings the worker on another connection; if
// the ping fails, all waiting requests are cancelled. Costs a request two short locks; one task
// scans all of them. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>

#include "runtime/context.h"
#include "runtime/executor.h"

namespace leat {

struct FailureDetectorOptions {
  // A request that has waited this long causes a ping.
  Clock::duration ping_after = std::chrono::milliseconds(500);
  // Interval of the scans.
  Clock::duration scan_interval = std::chrono::milliseconds(250);
};

class FailureDetector : public std::enable_shared_from_this<FailureDetector> {
 public:
  // Returns whether the worker responds; has its own timeout.
  using Ping = std::function<Task<Result<>>()>;
  static std::shared_ptr<FailureDetector> make(FailureDetectorOptions options, Ping ping,
                                               Executor& executor);

 private:
  struct InFlight {
    Clock::time_point since;
    std::stop_source stop;
    std::atomic<bool> failed = false;
  };

 public:
  // A request in flight during the lifetime of this object.
  class Request {
   public:
    // `grace`: the detector ignores this first part of the wait.
    Request(std::shared_ptr<FailureDetector> detector, Clock::duration grace);
    ~Request();
    Request(const Request&) = delete;

    // Context for the request: ends with the caller's, or when the worker is found dead.
    Context context(const Context& of_caller);
    bool peer_failed() const { return entry_->failed.load(); }

   private:
    const std::shared_ptr<FailureDetector> detector_;
    std::list<InFlight>::iterator entry_;
    std::optional<std::stop_callback<std::function<void()>>> forward_cancel_;
  };

 private:
  FailureDetector(FailureDetectorOptions options, Ping ping, Executor& executor)
      : options_(options), ping_(std::move(ping)), spawner_(executor) {}

  static Task<> scan_loop(std::shared_ptr<FailureDetector> self);
  // Returns whether a request waits too long; nothing if no request was in flight since the last
  // scan.
  std::optional<bool> scan();
  void cancel_late();

  const FailureDetectorOptions options_;
  const Ping ping_;
  const Spawner spawner_;
  std::mutex mutex_;  // leaf
  std::list<InFlight> in_flight_;
  bool scanning_ = false;
  bool used_ = false;  // since the last scan
};

}  // namespace leat
