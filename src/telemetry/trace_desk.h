// SPDX-License-Identifier: Apache-2.0
// TraceDesk: a registry of trace subscriptions. A user subscribes to a path with watch(). The
// frontends record the requests for it and add them here. Thread-safe.
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

class TraceDesk {
 public:
  // A subscription ends by itself after this time, or after this many requests.
  static constexpr auto kWatchedFor = std::chrono::minutes(10);
  static constexpr size_t kRequestsMax = 100;
  // Concurrent subscriptions; a new one replaces the oldest.
  static constexpr size_t kWatchesMax = 16;

  // One atomic load, so that it can precede every request.
  bool watching() const { return watching_.load(std::memory_order_relaxed); }
  bool wants(std::string_view path);

  // Subscribes to `path`, in the form that frontends use: absolute, as mounted. Returns the
  // subscription's id.
  uint64_t watch(std::string path);
  void add(std::string_view path, const TracedRequest& request);
  // Returns the requests in the order of their ends. Returns nothing if there is no such
  // subscription (any more).
  std::optional<std::vector<TracedRequest>> requests(uint64_t watch) const;
  bool end(uint64_t watch);

 private:
  struct Watch {
    std::string path;
    Span::Time until;
    std::vector<TracedRequest> requests;

    bool open() const {
      return requests.size() < kRequestsMax && std::chrono::steady_clock::now() < until;
    }
  };

  std::atomic<bool> watching_ = false;
  mutable std::mutex mutex_;  // leaf
  std::map<uint64_t, Watch> watches_;
  uint64_t next_ = 1;
};

// Returns the instance of the process.
TraceDesk& trace_desk();

// Creates a trace for work that several requests may wait for: each adopts it.
std::shared_ptr<Trace> trace_of_shared_work();

}  // namespace leat
