// SPDX-License-Identifier: Apache-2.0
// TraceDesk: where traces are asked for. Who wants to know what happens to a path has it watched;
// doors record the requests that concern it and hand them in. Thread-safe.
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
  std::chrono::system_clock::time_point time{};  // when it came
  Span::Time begin{}, end{};
  std::string operation{};         // "read", "lookup", "open", "list", "attributes"
  uint64_t offset = 0, bytes = 0;  // asked for by a read
  std::vector<Span> spans{};       // none: it was answered in place, from memory
  uint64_t spans_lost = 0;
  std::string failure{};  // empty: it succeeded
};

class TraceDesk {
 public:
  // A watch ends by itself after so long, or so many requests.
  static constexpr auto kWatchedFor = std::chrono::minutes(10);
  static constexpr size_t kRequestsMax = 100;
  // At a time; the oldest gives way.
  static constexpr size_t kWatchesMax = 16;

  // One load, so that it can stand in front of every request.
  bool watching() const { return watching_.load(std::memory_order_relaxed); }
  bool wants(std::string_view path);

  // `path` as doors name it: absolute, where it is seen.
  uint64_t watch(std::string path);
  void add(std::string_view path, const TracedRequest& request);
  // In the order of their ends; nothing: there is no such watch (any more).
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

// Of the process.
TraceDesk& trace_desk();

// For work that several requests may come to wait for: each adopts it.
std::shared_ptr<Trace> trace_of_shared_work();

}  // namespace leat
