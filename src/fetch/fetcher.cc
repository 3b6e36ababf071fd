// SPDX-License-Identifier: Apache-2.0
// Invariants:
//  - A request to a store is made only for a flight, and a flight only for bytes that are in no
//    other one and that the page store called missing after the last flight left the table.
//  - Readers get a flight's bytes before the page store does, whose trouble is never a reader's.
//  - A reader that goes away ends its wait, never the flight.
#include "fetch/fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fetch/flight_runner.h"
#include "fetch/flight_table.h"
#include "fetch/recent_ranges.h"
#include "runtime/traced.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Of a load, under way at once for one call.
constexpr uint64_t kEnsureBytes = 4 * kFlightBytesMax;
// Reads by way of the page store before its answer "not missing" is believed no more.
constexpr unsigned kCacheTries = 2;
// Looks at the table before a claim is made although flights keep leaving it: at worst a byte is
// fetched twice.
constexpr unsigned kClaimTries = 16;

constexpr const char* kBytesHelp = "Bytes handed to readers, by where they came from";
Counter bytes_memory("leat_fetch_bytes_total", kBytesHelp, R"(origin="memory")");
Counter bytes_cache("leat_fetch_bytes_total", kBytesHelp, R"(origin="cache")");
Counter bytes_source("leat_fetch_bytes_total", kBytesHelp, R"(origin="source")");
Counter bytes_direct("leat_fetch_bytes_total", kBytesHelp, R"(origin="local_disk")");
Counter joined_total("leat_fetch_joined_total", "Waits for a request that another reader had made",
                     "", Stability::kExperimental);
Counter cache_retries("leat_fetch_cache_retries_total",
                      "Reads that the page store could not answer although it had said so", "",
                      Stability::kExperimental);

const MetricFamily kMemory(MetricType::kGauge, "leat_fetch_memory_bytes",
                           "Bytes under way or recently fetched, in memory");
const MetricFamily kReadsWaiting(MetricType::kGauge, "leat_fetch_reads_waiting",
                                 "Reads that wait for memory");
const MetricFamily kReadBytes(MetricType::kGauge, "leat_fetch_read_bytes",
                              "Bytes of reads under way", "", Stability::kExperimental);
const MetricFamily kRequestsInFlight(MetricType::kGauge, "leat_fetch_requests_in_flight",
                                     "Requests to stores under way");

void count_joined(const std::vector<ReadPart>& parts, size_t own) {
  size_t awaited = std::ranges::count_if(parts, &ReadPart::under_way);
  joined_total.add(awaited - std::min(awaited, own));
}

// Of reads under way, wherever their bytes come from: together half of the memory, one store three
// quarters of that. They hold what they have got while they wait for the rest.
FairGate::Limits read_limits(uint64_t memory_bytes_max) {
  const uint64_t all = std::max(memory_bytes_max / 2, kFlightBytesMax);
  return {all, all, all - all / 4};
}

Error stopping(const FileRef& ref) {
  return error(StatusCode::kCancelled, fmt::format("cannot read '{}': Leat is stopping", ref.key));
}

Result<> check_range(const FileRef& ref, ByteRange range) {
  if (range.offset <= ref.size && range.size <= ref.size - range.offset) return {};
  return error(StatusCode::kOutOfRange,
               fmt::format("cannot read {} bytes at {} of '{}': it has {} bytes", range.size,
                           range.offset, ref.key, ref.size));
}

const char* why_not_kept(const FileRef& ref) {
  if (!ref.version.known()) return "its store tells no version of it";
  if (ref.cache == CacheUse::kDisk) return "there is none; start with a cache directory";
  return "its mount keeps none of it there; mount with the option cache=always";
}

class ChainFetcher final : public Fetcher {
 public:
  ChainFetcher(FetcherOptions options, PageStore* store, SourceTable& sources, Executor& executor)
      : memory_bytes_max_(options.memory_bytes_max),
        memory_(options.memory_bytes_max, options.now),
        reads_(read_limits(options.memory_bytes_max)),
        runner_(options, store, sources, executor, table_, memory_) {}
  ~ChainFetcher() override { LEAT_CHECK(runner_.idle()); }

  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  bool hands_over(const FileRef& ref) const override { return runner_.hands_over(ref); }
  Task<Result<SourceFilePtr>> open_file(Context context, FileRefPtr ref) override;
  bool prefetch(FileRefPtr ref, ByteRange range) override;
  uint64_t unkept_ahead_bytes_max() const override { return memory_bytes_max_ / 4; }
  Task<Result<uint64_t>> ensure(Context context, FileRefPtr ref, ByteRange range) override;
  uint64_t forget(const FileId& id) override;
  Task<> stop() override;
  FetcherStats stats() const override {
    return {memory_.bytes(), runner_.requests_in_flight(), table_.files()};
  }

 private:
  FlightTable::ClaimLimits claim_limits(const FileRef& ref, size_t flights_max) const;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range, bool ask_store) const;
  void count_handed_out(const FlightPtr& flight, ByteRange part) {
    if (table_.handed_out(flight, part)) memory_.read_through(flight);
  }

  std::vector<ReadPart> find_or_start(const FileRefPtr& ref, ByteRange range, bool ask_store,
                                      const Activity::Token& token);
  Task<Result<>> gather(Context context, FileRefPtr ref, std::vector<ReadPart> parts, Bytes* rope);
  Task<Result<Bytes>> await_landed(Context context, FlightPtr flight, ByteRange part);
  Task<Result<Bytes>> read_cached(Context context, FileRefPtr ref, ByteRange range);

  enum class Ahead { kLookAgain, kNothingLeft, kRefused };
  Ahead prefetch_one(const FileRefPtr& ref, const std::vector<ByteRange>& missing,
                     uint64_t generation, const Activity::Token& token);
  FlightTable::Claim claim_unstored(const FileRefPtr& ref, ByteRange range);
  Task<Result<uint64_t>> ensure_piece(Context context, FileRefPtr ref, ByteRange range,
                                      Activity::Token token);
  Task<Result<>> await_stored(Context context, FileRefPtr ref, FlightPtr flight);

  const uint64_t memory_bytes_max_;
  FlightTable table_;
  RecentRanges memory_;
  FairGate reads_;  // bytes of reads under way
  FlightRunner runner_;
  Gauge memory_gauge_{kMemory, [this] { return static_cast<double>(memory_.bytes()); }};
  Gauge reads_gauge_{kReadsWaiting, [this] { return static_cast<double>(reads_.waiting()); }};
  Gauge read_bytes_gauge_{kReadBytes, [this] { return static_cast<double>(reads_.in_use()); }};
  Gauge requests_gauge_{kRequestsInFlight,
                        [this] { return static_cast<double>(runner_.requests_in_flight()); }};
};

// Packed objects are fetched and written whole.
FlightTable::ClaimLimits ChainFetcher::claim_limits(const FileRef& ref, size_t flights_max) const {
  PageStore* store = runner_.store_for(ref);
  bool whole = store != nullptr && store->packed(ref);
  return {whole ? std::max(ref.size, kFlightBytesMax) : kFlightBytesMax, flights_max};
}

std::vector<ByteRange> ChainFetcher::missing(const FileRef& ref, ByteRange range,
                                             bool ask_store) const {
  PageStore* store = runner_.store_for(ref);
  if (store != nullptr && ask_store) return store->missing(ref, range);
  if (store != nullptr && store->packed(ref)) return {ByteRange{0, ref.size}};
  const uint64_t unit = store == nullptr ? runner_.read_bytes_min(ref) : kBlockBytes;
  return {range.widen(unit, ref.size)};
}

// --- reading -------------------------------------------------------------------------------------

Task<Result<Bytes>> ChainFetcher::read(Context context, FileRefPtr ref, ByteRange range) {
  auto token = runner_.enter();
  if (!token) co_return stopping(*ref);
  if (auto fits = check_range(*ref, range); !fits) co_return Error(fits.error());
  FairGate::Ask ask = fair_ask(*ref, range.size);
  // What is on the disk does not wait behind those for whom its store hangs.
  if (PageStore* store = runner_.store_for(*ref); store && store->missing(*ref, range).empty()) {
    ask.group ^= 1;
  }
  std::optional<Traced> memory(std::in_place, context, "wait for memory");
  auto permit = co_await reads_.acquire(context, ask, "a read that waits for memory");
  memory.reset();
  if (!permit) co_return Error(permit.error());
  if (ref->cache == CacheUse::kNone) {
    Result<Bytes> bytes = co_await runner_.read_source(ref, range, context);
    if (bytes) bytes_direct.add(range.size);
    co_return bytes;
  }
  Bytes rope;
  for (unsigned tries = 0; rope.size() < range.size; ++tries) {
    LEAT_CHECK(tries <= kCacheTries);  // the last one does not ask the page store
    if (auto alive = context.check("a read"); !alive) co_return Error(alive.error());
    ByteRange rest{range.offset + rope.size(), range.size - rope.size()};
    std::vector<ReadPart> parts = find_or_start(ref, rest, tries < kCacheTries, *token);
    auto gathered = co_await gather(context, ref, std::move(parts), &rope);
    if (!gathered) co_return Error(gathered.error());
  }
  co_return rope;
}

std::vector<ReadPart> ChainFetcher::find_or_start(const FileRefPtr& ref, ByteRange range,
                                                  bool ask_store, const Activity::Token& token) {
  for (unsigned tries = 1;; ++tries) {
    FlightTable::Look look = table_.look(ref->id, range);
    for (const FlightPtr& flight : look.read_through) memory_.read_through(flight);
    if (look.complete) return std::move(look.parts);
    std::vector<ByteRange> to_fetch;
    if (std::ranges::any_of(look.parts, &ReadPart::elsewhere)) {
      to_fetch = missing(*ref, range, ask_store);
    }
    if (to_fetch.empty()) {
      count_joined(look.parts, 0);
      return std::move(look.parts);
    }
    std::optional<uint64_t> generation;
    if (tries < kClaimTries) generation = look.generation;
    auto claim = table_.claim(ref, range, to_fetch, generation, claim_limits(*ref, SIZE_MAX));
    if (!claim) continue;
    count_joined(claim->parts, claim->started.size());
    for (FlightPtr& flight : claim->started) {
      runner_.launch(std::move(flight), Urgency::kDemand, {}, token.another());
    }
    return std::move(claim->parts);
  }
}

// Appends the parts to `rope` in order. Ends early, without an error, where the page store no
// longer has what it had: the caller then looks again from there.
Task<Result<>> ChainFetcher::gather(Context context, FileRefPtr ref, std::vector<ReadPart> parts,
                                    Bytes* rope) {
  for (ReadPart& part : parts) {
    const FlightPtr& flight = part.reader.flight();
    if (part.in_memory()) {
      const Traced span(context, "take from memory");
      bytes_memory.add(part.range.size);
    } else if (part.under_way()) {
      Traced span(context, "wait for the store");
      Result<Bytes> landed = co_await await_landed(context, flight, part.range);
      span.adopt(flight->trace);
      if (!landed) co_return Error(landed.error());
      part.bytes = *std::move(landed);
      bytes_source.add(part.range.size);
    } else {
      Traced span(context, "read from the cache");
      Result<Bytes> cached = co_await read_cached(context, ref, part.range);
      if (!cached) {
        cache_retries.add();
        co_return context.check("a read");  // the reader's own end, or another try
      }
      part.bytes = *std::move(cached);
      bytes_cache.add(part.range.size);
    }
    if (flight != nullptr) count_handed_out(flight, part.range);
    if (parts.size() == 1 && rope->empty()) {
      *rope = std::move(part.bytes);
    } else {
      rope->append(part.bytes);
    }
  }
  co_return Result<>();
}

Task<Result<Bytes>> ChainFetcher::await_landed(Context context, FlightPtr flight, ByteRange part) {
  Result<Bytes> landed = co_await flight->landed->wait(context, "a read");
  if (landed) co_return landed->sub(part.offset - flight->range.offset, part.size);
  co_return error(landed.error().with_context(fmt::format(
      "cannot read {} bytes at {} of '{}'", part.size, part.offset, flight->file->key)));
}

Task<Result<Bytes>> ChainFetcher::read_cached(Context context, FileRefPtr ref, ByteRange range) {
  PageStore* store = runner_.store_for(*ref);
  if (store == nullptr) co_return error(StatusCode::kNotFound, "there is no page store");
  if (auto hot = store->try_read(*ref, range)) co_return *std::move(hot);
  Result<Bytes> cold = co_await store->read(context, ref, range);
  if (cold && cold->size() != range.size) {
    co_return error(StatusCode::kInternal, "the page store answered another number of bytes");
  }
  if (!cold && cold.error().code() != StatusCode::kNotFound) {
    log::warning("reading '{}' from the cache: {}; reading it from its store instead", ref->key,
                 cold.error().to_string());
  }
  co_return cold;
}

std::optional<Bytes> ChainFetcher::try_read(const FileRef& ref, ByteRange range) {
  if (!check_range(ref, range)) return std::nullopt;
  if (range.empty()) return Bytes();
  if (ref.cache == CacheUse::kNone) return std::nullopt;
  FlightTable::Look look = table_.look(ref.id, range);
  for (const FlightPtr& flight : look.read_through) memory_.read_through(flight);
  if (std::ranges::any_of(look.parts, &ReadPart::under_way)) return std::nullopt;
  PageStore* store = runner_.store_for(ref);
  uint64_t from_cache = 0;
  for (ReadPart& part : look.parts) {
    if (part.in_memory()) continue;
    auto hot = store == nullptr ? std::nullopt : store->try_read(ref, part.range);
    if (!hot) return std::nullopt;
    part.bytes = *std::move(hot);
    from_cache += part.range.size;
  }
  bytes_memory.add(range.size - from_cache);
  bytes_cache.add(from_cache);
  if (look.parts.size() == 1) return std::move(look.parts.front().bytes);
  Bytes rope;
  for (ReadPart& part : look.parts) {
    if (part.reader && !look.complete) count_handed_out(part.reader.flight(), part.range);
    rope.append(part.bytes);
  }
  return rope;
}

Task<Result<SourceFilePtr>> ChainFetcher::open_file(Context context, FileRefPtr ref) {
  auto token = runner_.enter();
  if (!token) co_return stopping(*ref);
  if (ref->cache != CacheUse::kNone && !hands_over(*ref)) co_return SourceFilePtr();
  co_return co_await runner_.open_file(context, ref);
}

// --- look-ahead and load -------------------------------------------------------------------------

bool ChainFetcher::prefetch(FileRefPtr ref, ByteRange range) {
  range = range.clamp(ref->size);
  if (range.empty() || !ref->version.known() || ref->cache == CacheUse::kNone) return true;
  auto token = runner_.enter();
  if (!token) return true;
  // Bounded, so that a table that others keep changing cannot hold a door's thread here.
  for (unsigned tries = 0; tries < kClaimTries; ++tries) {
    uint64_t generation = 0;
    if (table_.covers(ref->id, range, &generation)) return true;
    std::vector<ByteRange> to_fetch = missing(*ref, range, true);
    if (to_fetch.empty()) return true;
    const Ahead ahead = prefetch_one(ref, to_fetch, generation, *token);
    if (ahead != Ahead::kLookAgain) return ahead == Ahead::kNothingLeft;
  }
  return false;
}

// Starts one flight, if there is one to start and a request and memory for it.
ChainFetcher::Ahead ChainFetcher::prefetch_one(const FileRefPtr& ref,
                                               const std::vector<ByteRange>& missing,
                                               uint64_t generation, const Activity::Token& token) {
  const FlightTable::ClaimLimits one = claim_limits(*ref, 1);
  uint64_t most = 0;
  for (const ByteRange& range : missing) most += range.size;
  most = std::min(most, one.flight_bytes_max);
  auto ticket = runner_.try_ahead(*ref, most);
  if (!ticket) return Ahead::kRefused;
  // Before the claim, since others may wait for a flight from the moment it is in the table.
  RecentRanges::Reservation reservation = memory_.try_reserve(most);
  runner_.forget(reservation.evicted);
  if (!reservation.granted) return Ahead::kRefused;
  auto claim = table_.claim(ref, {}, missing, generation, one);
  if (!claim || claim->started.empty()) {
    memory_.release(most);
    // Without a claim the table changed, perhaps by making room just now: look again.
    return claim ? Ahead::kNothingLeft : Ahead::kLookAgain;
  }
  FlightPtr flight = std::move(claim->started.front());
  memory_.release(most - flight->range.size);
  ticket->memory.shrink_to(flight->range.size);
  runner_.launch(std::move(flight), Urgency::kAhead, *std::move(ticket), token.another());
  return Ahead::kLookAgain;
}

Task<Result<uint64_t>> ChainFetcher::ensure(Context context, FileRefPtr ref, ByteRange range) {
  auto token = runner_.enter();
  if (!token) co_return stopping(*ref);
  if (auto fits = check_range(*ref, range); !fits) co_return Error(fits.error());
  if (runner_.store_for(*ref) == nullptr) {
    co_return error(StatusCode::kUnsupported, fmt::format("cannot load '{}' into the cache: {}",
                                                          ref->key, why_not_kept(*ref)));
  }
  uint64_t fetched = 0;
  for (uint64_t at = range.offset; at < range.end(); at += kEnsureBytes) {
    ByteRange piece{at, std::min(kEnsureBytes, range.end() - at)};
    auto bytes = co_await ensure_piece(context, ref, piece, token->another());
    if (!bytes) co_return Error(bytes.error());
    fetched += *bytes;
  }
  co_return fetched;
}

// Where the parts of `range` are to be had that the page store lacks; empty when it has them all.
FlightTable::Claim ChainFetcher::claim_unstored(const FileRefPtr& ref, ByteRange range) {
  for (unsigned tries = 1;; ++tries) {
    uint64_t now = 0;
    table_.covers(ref->id, range, &now);
    std::vector<ByteRange> to_fetch = runner_.store_for(*ref)->missing(*ref, range);
    if (to_fetch.empty()) return {};
    std::optional<uint64_t> generation;
    if (tries < kClaimTries) generation = now;
    auto claim = table_.claim(ref, range, to_fetch, generation, claim_limits(*ref, SIZE_MAX));
    if (claim) return *std::move(claim);
  }
}

Task<Result<uint64_t>> ChainFetcher::ensure_piece(Context context, FileRefPtr ref, ByteRange range,
                                                  Activity::Token token) {
  if (auto alive = context.check("a load"); !alive) co_return Error(alive.error());
  FlightTable::Claim claim = claim_unstored(ref, range);
  uint64_t fetched = 0;
  for (FlightPtr& flight : claim.started) {
    fetched += flight->range.size;
    runner_.launch(std::move(flight), Urgency::kLoad, {}, token.another());
  }
  for (const ReadPart& part : claim.parts) {
    if (!part.reader) continue;
    auto stored = co_await await_stored(context, ref, part.reader.flight());
    if (!stored) {
      co_return error(stored.error().with_context(
          fmt::format("cannot load {} bytes at {} of '{}' into the cache", part.range.size,
                      part.range.offset, ref->key)));
    }
  }
  co_return fetched;
}

// Returns when the flight's bytes are in the page store, and puts them there once more when they
// were refused or dropped since.
Task<Result<>> ChainFetcher::await_stored(Context context, FileRefPtr ref, FlightPtr flight) {
  const bool fresh = !flight->stored->ready();
  Result<bool> stored = co_await flight->stored->wait(context, "a load");
  // kUnsupported: the flight began for a reader whose mount does not keep this file.
  if (fresh && (stored || stored.error().code() != StatusCode::kUnsupported)) {
    if (!stored) co_return Error(stored.error());
    co_return Result<>();
  }
  std::optional<Result<Bytes>> landed = flight->landed->peek();
  LEAT_CHECK(landed.has_value());
  if (!*landed) co_return Error(landed->error());
  PageStore* store = runner_.store_for(*ref);
  if (store->missing(*ref, flight->range).empty()) co_return Result<>();
  uint64_t offset = flight->range.offset;
  auto written = co_await store->write(context, ref, offset, *std::move(*landed));
  co_return written;
}

uint64_t ChainFetcher::forget(const FileId& id) {
  uint64_t bytes = 0;
  for (const FlightPtr& flight : table_.of(id)) {
    if (!memory_.evict(flight)) continue;
    bytes += flight->range.size;
    table_.remove(flight);
  }
  return bytes;
}

Task<> ChainFetcher::stop() {
  runner_.close();
  co_await runner_.wait_idle();
}

}  // namespace

std::unique_ptr<Fetcher> Fetcher::create(FetcherOptions options, PageStore* store,
                                         SourceTable& sources, Executor& executor) {
  return std::make_unique<ChainFetcher>(std::move(options), store, sources, executor);
}

}  // namespace leat
