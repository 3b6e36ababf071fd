// SPDX-License-Identifier: Apache-2.0
// TraceRegistry: a registry of trace subscriptions. A user subscribes to a path. The
// frontends record the requests for it here. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/trace.h"

namespace leat {

struct TracedRequest {
  std::chrono::system_clock::time_point time{};  // when the request arrived
  Span::Time begin{}, end{};
  std::string operation{};         // "read", "lookup", "open", "list", "attributes"
  uint64_t offset = 0, bytes = 0;  // requested by a read
  std::vector<Span> spans{};       // empty: answered inline, from memory
  uint64_t spans_lost = 0;
  std::string failure{};  // empty if it succeeded
};

class TraceRegistry {
 public:
  // A subscription ends by itself after this time, or after this many requests.
  static constexpr auto kSubscriptionTtl = std::chrono::minutes(10);
  static constexpr size_t kRequestsMax = 100;
  // Concurrent subscriptions; a new one replaces the oldest.
  static constexpr size_t kSubscriptionsMax = 16;

  // One atomic load, so that it can precede every request.
  bool any_subscribed() const { return any_subscribed_.load(std::memory_order_relaxed); }
  bool is_subscribed(std::string_view path);

  // Subscribes to `path`, in the form that frontends use: absolute, as mounted. Returns the
  // subscription's id.
  uint64_t subscribe(std::string path);
  void record(std::string_view path, const TracedRequest& request);
  // Returns the requests in the order of their ends. Returns nothing if there is no such
  // subscription (any more).
  std::optional<std::vector<TracedRequest>> requests(uint64_t subscription) const;
  bool unsubscribe(uint64_t subscription);

 private:
  struct Subscription {
    std::string path;
    Span::Time until;
    std::vector<TracedRequest> requests;

    bool active() const {
      return requests.size() < kRequestsMax && std::chrono::steady_clock::now() < until;
    }
  };

  std::atomic<bool> any_subscribed_ = false;
  mutable std::mutex mutex_;  // leaf
  std::map<uint64_t, Subscription> subscriptions_;
  uint64_t next_ = 1;
};

// Returns the instance of the process.
TraceRegistry& trace_registry();

// Creates a trace for work that several requests may wait for: each adopts it.
std::shared_ptr<Trace> trace_of_shared_work();

}  // namespace leat
