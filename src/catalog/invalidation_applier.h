// SPDX-License-Identifier: Apache-2.0
// InvalidationApplier: applies changes in a store that another process reports. The metadata of the
// named directories becomes stale at once. Cached directories are listed again, so that the
// catalog's listener receives the differences, several at a time. The latest reports come first,
// and within a report the most recently used directories. So a directory in use is updated soon,
// even while a hundred thousand others wait. Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "runtime/executor.h"
#include "runtime/gate.h"

namespace leat {

struct InvalidatedPath {
  std::string path{};  // of a directory, in the namespace
  bool all = false;    // and everything below it
};

class InvalidationApplier {
 public:
  static constexpr size_t kConcurrentListings = 16;

  // Both arguments must outlive it, and stop() must have ended before its destruction.
  InvalidationApplier(Catalog& catalog, Executor& executor)
      : catalog_(catalog), executor_(executor) {}

  // Does not wait for the listings.
  void apply(const std::vector<InvalidatedPath>& changes);
  // Begins no further listing.
  void close();
  // Returns when no listing is in flight.
  Task<> stop();

 private:
  static Task<> list_pending(Gate::Holder token, InvalidationApplier* self);
  std::optional<std::string> next();

  Catalog& catalog_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  std::mutex mutex_;  // leaf
  // Directories to list, the next one first; each once.
  std::deque<std::string> pending_;
  std::set<std::string, std::less<>> pending_set_;
  size_t listings_in_flight_ = 0;
  bool closed_ = false;  // nothing waits any more
};

}  // namespace leat
