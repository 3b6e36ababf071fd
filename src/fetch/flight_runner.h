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
#include "fetch/buffer_cache.h"
#include "fetch/fetcher.h"
#include "fetch/flight_table.h"
#include "fetch/store_limiter.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "source/source_table.h"

namespace leat {

// A larger flight gains nothing on a connection and delays its readers; see StreamOptions.
inline constexpr uint64_t kFlightBytesMax = 8 * kMiB;
// Minimum bytes of all flights together, also if less memory is allowed.
inline constexpr uint64_t kInFlightBytesMin = 2 * kFlightBytesMax;

// Request to a FairSemaphore for a read or a flight. Each file has a flow for small and one for
// large ones, so that small ones do not wait behind large ones of the same file.
FairSemaphore::Request fair_request(const FileRef& file, uint64_t bytes);

enum class FlightPriority : uint8_t {
  kDemand,    // a reader waits
  kBatch,     // a load waits; holds its permit, with its memory, already
  kPrefetch,  // nobody waits; holds its permit, with its memory, already
};

class FlightRunner {
 public:
  FlightRunner(const FetcherOptions& options, PageStore* store, SourceTable& sources,
               Executor& executor, FlightTable& table, BufferCache& memory);

  // Returns the page store for the file. Returns null for an unknown version (the same id may stand
  // for other bytes later), for files that are not cached on disk, and if there is no page store.
  PageStore* store_for(const FileRef& ref) const {
    return ref.version.known() && ref.cache == CacheUse::kDisk ? store_ : nullptr;
  }
  // Minimum size of a read that is not cached in the page store.
  uint64_t read_bytes_min(const FileRef& file) const;
  // For prefetch of `bytes`; returns nothing if the store is busy or memory is short.
  std::optional<StoreLimiter::Permit> try_prefetch(const FileRef& file, uint64_t bytes);
  // For a load of `bytes`: waits behind demand reads. The load claims its flight afterwards, so
  // that a reader of the same bytes never waits behind the load.
  Task<Result<StoreLimiter::Permit>> admit_load(Context context, FileRefPtr file, uint64_t bytes);
  // Removes evicted ranges from the table.
  void remove_evicted(const BufferCache::Evicted& evicted);

  // Whether another process may pass the file. Requires a known version.
  bool has_local_file(const FileRef& file) const;
  bool take_cache_miss(const FileRef& file) const;
  // Without a flight: for files of CacheUse::kBypass, and those that are passed by another process.
  Task<Result<Bytes>> read_source(FileRefPtr file, ByteRange range, Context context);
  Task<Result<SourceFilePtr>> open_file(Context context, FileRefPtr file);

  // Returns nothing after close().
  std::optional<Gate::Holder> enter() { return gate_.enter(); }
  // `permit` is empty for kDemand.
  void launch(FlightPtr flight, FlightPriority priority, StoreLimiter::Permit permit,
              Gate::Holder token);

  // Rejects new work and cancels the flights without waiters.
  void close();
  Task<> wait_idle() { return gate_.wait_idle(); }
  bool idle() const { return gate_.idle(); }
  uint64_t in_flight_bytes() const { return in_flight_.in_use(); }
  uint64_t requests_in_flight() const { return requests_in_flight_.load(); }

 private:
  // `token` is the first parameter, so that it is destroyed last: the permit's semaphore lives in
  // this object.
  Task<> run(Gate::Holder token, FlightPtr flight, FlightPriority priority,
             StoreLimiter::Permit permit);
  Task<Result<StoreLimiter::Permit>> admit(Context context, FileRefPtr file, uint64_t bytes,
                                           bool low_priority);
  // Requests of `bytes` that the file's store takes now.
  unsigned concurrency_hint(const FileRef& file, uint64_t bytes) const;
  Task<Result<>> request(FlightPtr flight);
  Task<Result<>> fill(FileRefPtr file, ByteRange range, Context context, std::span<std::byte> into,
                      ReadProgress progress);
  Result<SourcePtr> source_of(const FileRef& file) const;
  StoreLimiter& limiter(const StoreId& store);
  Task<Result<bool>> write_to_cache(FlightPtr flight);
  void fail(const FlightPtr& flight, const Status& why);
  // `token` is the caller's. At most one sweep runs, and only while something can be evicted.
  void begin_sweep(const Gate::Holder& token);
  Task<> sweep(Gate::Holder token);
  // Like begin_sweep(), for requests without waiters.
  void begin_check(const Gate::Holder& token);
  Task<> end_unread(Gate::Holder token);
  // Also ends those that were unread at the check before.
  void check_unread();
  bool any_in_flight() const;

  const Clock::duration request_timeout_;
  const Clock::duration write_timeout_;
  const Clock::duration unread_ttl_;
  const unsigned requests_max_;
  PageStore* const store_;
  SourceTable& sources_;
  Executor& executor_;
  FlightTable& table_;
  BufferCache& memory_;
  FairSemaphore in_flight_;   // bytes, of all stores
  FairSemaphore load_bytes_;  // of loads, part of in_flight_; taken before their request
  Gate gate_;
  std::atomic<uint64_t> requests_in_flight_ = 0;
  std::stop_source closing_;
  std::atomic<bool> sweeping_ = false, checking_ = false;
  std::mutex limiters_mutex_;                                  // leaf
  std::map<StoreId, std::unique_ptr<StoreLimiter>> limiters_;  // one per bucket ever read
};

}  // namespace leat
