// SPDX-License-Identifier: Apache-2.0
// FetcherImpl: the Fetcher. fetcher.cc reads, fetcher_prefetch.cc prefetches and loads. Private to
// this module.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fetch/block_set.h"
#include "fetch/buffer_cache.h"
#include "fetch/fetcher.h"
#include "fetch/flight_runner.h"
#include "fetch/flight_table.h"
#include "telemetry/metrics.h"

namespace leat {

class FetcherImpl final : public Fetcher {
 public:
  FetcherImpl(FetcherOptions options, PageStore* store, SourceTable& sources, Executor& executor);
  ~FetcherImpl() override;

  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override {
    return read_in(Unit::kBlock, std::move(context), std::move(ref), range);
  }
  Task<Result<Bytes>> read_at_random(Context context, FileRefPtr ref, ByteRange range) override {
    return read_in(Unit::kPage, std::move(context), std::move(ref), range);
  }
  StreamedReadPtr stream(FileRefPtr ref, ByteRange range) override;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  bool has_local_file(const FileRef& ref) const override { return runner_.has_local_file(ref); }
  bool take_cache_miss(const FileRef& ref) override { return runner_.take_cache_miss(ref); }
  Task<Result<SourceFilePtr>> open_file(Context context, FileRefPtr ref) override;
  bool prefetch(FileRefPtr ref, ByteRange range) override;
  uint64_t uncached_prefetch_bytes_max() const override { return memory_bytes_max_ / 4; }
  Task<Result<uint64_t>> ensure(Context context, FileRefPtr ref, ByteRange range) override;
  Task<> wait_for_writes(Context context, FileId id) override;
  uint64_t evict(const FileId& id) override;
  Task<> stop() override;
  FetcherStats stats() const override {
    return {memory_.bytes(), runner_.requests_in_flight(), table_.files()};
  }

 private:
  class StreamedReadImpl;
  // Granularity of a fetch for a read of a file that is not packed.
  enum class Unit : uint8_t { kBlock, kPage };

  Task<Result<Bytes>> read_in(Unit unit, Context context, FileRefPtr ref, ByteRange range);
  FlightTable::ClaimLimits claim_limits(const FileRef& ref, size_t flights_max) const;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range, bool ask_store) const;
  void count_delivered(const FlightPtr& flight, ByteRange part) {
    if (table_.mark_delivered(flight, part)) memory_.on_fully_read(flight);
  }

  Task<Result<FairSemaphore::Permit>> admit(Context context, FileRefPtr ref, ByteRange range);
  Task<Result<Bytes>> read_direct(Context context, FileRefPtr ref, ByteRange range);
  std::vector<ReadPart> find_or_start(Unit unit, const FileRefPtr& ref, ByteRange range,
                                      bool ask_store, const Gate::Holder& token);
  // Removes from `missing`, the blocks that the page store lacks of `read`, the pages that are not
  // read. Keeps a block that was read in part before.
  void trim_to_pages(const FileRef& ref, ByteRange read, std::vector<ByteRange>& missing) const;
  void remember_partial(const Flight& flight);
  // Evicts partial blocks within `ranges` that are not in flight, so that these are fetched whole.
  void evict_partial(const FileRef& ref, const std::vector<ByteRange>& ranges);
  // Same, if any file with a page store can have some.
  void evict_if_partial(const FileRef& ref, const std::vector<ByteRange>& ranges);
  Task<Result<>> gather(Context context, FileRefPtr ref, std::vector<ReadPart> parts, Bytes* rope);
  // Returns the part's first bytes, `least` to `most` of them. Returns none, without an error, if
  // the page store has dropped them meanwhile: the caller then looks up the rest again.
  Task<Result<Bytes>> take(Context context, FileRefPtr ref, ReadPart& part, uint64_t least,
                           uint64_t most);
  Task<Result<Bytes>> wait_for_bytes(Context context, const ReadPart& part, ByteRange range,
                                     uint64_t least);
  Task<Result<Bytes>> read_cached(Context context, FileRefPtr ref, ByteRange range);

  enum class PrefetchResult { kCheckAgain, kNothingMissing, kNoCapacity };
  PrefetchResult prefetch_one(const FileRefPtr& ref, const std::vector<ByteRange>& missing,
                              uint64_t generation, const Gate::Holder& token);
  // Starts at most one flight of at most `bytes_max` for bytes of `range` that the page store
  // lacks.
  FlightPtr claim_unstored(const FileRefPtr& ref, ByteRange range, uint64_t bytes_max);
  Task<Result<uint64_t>> ensure_piece(Context context, FileRefPtr ref, ByteRange range,
                                      Gate::Holder token);
  Task<Result<bool>> wait_for_flights(Context context, FileRefPtr ref, ByteRange range);
  Task<Result<>> wait_until_loaded(Context context, FileRefPtr ref, FlightPtr flight);
  Task<Result<>> wait_until_stored(Context context, FileRefPtr ref, FlightPtr flight);

  const uint64_t memory_bytes_max_;
  FlightTable table_;
  BufferCache memory_;
  FairSemaphore reads_;      // bytes of reads in flight
  BlockSet partial_blocks_;  // those that were read in part
  FlightRunner runner_;
  const Gauge memory_gauge_, reads_gauge_, read_bytes_gauge_, requests_gauge_;
};

// Number of lookups before a claim is made although flights keep leaving the table; at worst a byte
// is fetched twice.
inline constexpr unsigned kClaimTries = 16;

// Errors of a fetcher that stops, and of an invalid range.
Error stopping(const FileRef& ref);
Result<> check_range(const FileRef& ref, ByteRange range);

}  // namespace leat
