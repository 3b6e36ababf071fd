// SPDX-License-Identifier: Apache-2.0
// FlightRunner: runs a claimed flight: admission, request to the store, readers, page store,
// memory. Each flight is a task of its own, which ends whether or not a reader waits. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>

#include "cache/page_store.h"
#include "fetch/fetcher.h"
#include "fetch/flight_table.h"
#include "fetch/recent_ranges.h"
#include "fetch/request_limits.h"
#include "runtime/activity.h"
#include "runtime/executor.h"
#include "source/source_table.h"

namespace leat {

// A larger flight gains nothing on a connection and delays its readers; see StreamOptions.
inline constexpr uint64_t kFlightBytesMax = 8 * kMiB;
// Minimum bytes of all flights together, also if less memory is allowed.
inline constexpr uint64_t kUnderWayBytesMin = 2 * kFlightBytesMax;

// Request to a FairGate for a read or a flight. Each file has a flow for small and one for large
// ones, so that small ones do not wait behind large ones of the same file.
FairGate::Ask fair_ask(const FileRef& file, uint64_t bytes);

enum class Urgency : uint8_t {
  kDemand,  // a reader waits
  kLoad,    // a load waits; leaves requests to demand reads
  kAhead,   // no reader waits; holds its ticket, with its memory, already
};

class FlightRunner {
 public:
  FlightRunner(const FetcherOptions& options, PageStore* store, SourceTable& sources,
               Executor& executor, FlightTable& table, RecentRanges& memory);

  // Returns the page store for the file. Returns null for an unknown version (the same id may stand
  // for other bytes later), for files that are not cached on disk, and if there is no page store.
  PageStore* store_for(const FileRef& ref) const {
    return ref.version.known() && ref.cache == CacheUse::kDisk ? store_ : nullptr;
  }
  // Minimum size of a read that is not cached in the page store.
  uint64_t read_bytes_min(const FileRef& file) const;
  // For prefetch of `bytes`; returns nothing if the store is busy or memory is short.
  std::optional<RequestLimits::Ticket> try_ahead(const FileRef& file, uint64_t bytes);
  // Removes evicted ranges from the table.
  void forget(const RecentRanges::Evicted& evicted);

  // Whether another process may pass the file. Requires a known version.
  bool hands_over(const FileRef& file) const;
  // Without a flight: for files of CacheUse::kNone, and those that are passed by another process.
  Task<Result<Bytes>> read_source(FileRefPtr file, ByteRange range, Context context);
  Task<Result<SourceFilePtr>> open_file(Context context, FileRefPtr file);

  // Returns nothing after close().
  std::optional<Activity::Token> enter() { return activity_.enter(); }
  // `ticket` is empty except for prefetch.
  void launch(FlightPtr flight, Urgency urgency, RequestLimits::Ticket ticket,
              Activity::Token token);

  // Rejects new work and cancels the flights without waiters.
  void close();
  Task<> wait_idle() { return activity_.wait_idle(); }
  bool idle() const { return activity_.idle(); }
  uint64_t under_way_bytes() const { return under_way_.in_use(); }
  uint64_t requests_in_flight() const { return requests_in_flight_.load(); }

 private:
  // `token` is the first parameter, so that it is destroyed last: the ticket's semaphore lives in
  // this object.
  Task<> fly(Activity::Token token, FlightPtr flight, Urgency urgency,
             RequestLimits::Ticket ticket);
  Task<Result<RequestLimits::Ticket>> admit(FlightPtr flight, bool yields);
  Task<Result<>> request(FlightPtr flight);
  Task<Result<>> fill(FileRefPtr file, ByteRange range, Context context, std::span<std::byte> into,
                      ReadProgress progress);
  Result<SourcePtr> source_of(const FileRef& file) const;
  RequestLimits& limits(const StoreId& store);
  Task<Result<bool>> keep(FlightPtr flight);
  void fail(const FlightPtr& flight, const Status& why);
  // `token` is the caller's. At most one sweep runs, and only while something can be dropped.
  void begin_sweep(const Activity::Token& token);
  Task<> sweep(Activity::Token token);
  // Like begin_sweep(), for requests without waiters.
  void begin_check(const Activity::Token& token);
  Task<> end_unread(Activity::Token token);
  // Also ends those that were unread at the check before.
  void check_unread();
  bool any_under_way() const;

  const Clock::duration request_timeout_;
  const Clock::duration write_timeout_;
  const Clock::duration unread_young_;
  const unsigned requests_max_;
  PageStore* const store_;
  SourceTable& sources_;
  Executor& executor_;
  FlightTable& table_;
  RecentRanges& memory_;
  FairGate under_way_;  // bytes, of all stores
  Activity activity_;
  std::atomic<uint64_t> requests_in_flight_ = 0;
  std::stop_source closing_;
  std::atomic<bool> sweeping_ = false, checking_ = false;
  std::mutex limits_mutex_;                                   // leaf
  std::map<StoreId, std::unique_ptr<RequestLimits>> limits_;  // one per bucket ever read
};

}  // namespace leat
