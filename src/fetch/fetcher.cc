// SPDX-License-Identifier: Apache-2.0
// Invariants:
// 1. A request to a store is made only for a flight. A flight is started only for bytes that are in
// no other one and that the page store lacked after the last flight left the table.
// 2. Readers get a flight's bytes before the page store does, and its errors never reach a reader.
// 3. A reader that leaves ends its wait, never the flight.
#include "fetch/fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fetch/fetcher_impl.h"
#include "runtime/scoped_span.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Reads through the page store before its answer "not missing" is no longer trusted.
constexpr unsigned kCacheTries = 2;

constexpr const char* kBytesHelp = "Bytes handed to readers, by where they came from";
Counter bytes_memory("leat_fetch_bytes_total", kBytesHelp, R"(origin="memory")");
Counter bytes_cache("leat_fetch_bytes_total", kBytesHelp, R"(origin="cache")");
Counter bytes_source("leat_fetch_bytes_total", kBytesHelp, R"(origin="source")");
Counter bytes_direct("leat_fetch_bytes_total", kBytesHelp, R"(origin="local_disk")");
Counter coalesced_total("leat_fetch_coalesced_total",
                        "Reads that joined a store request of another reader in flight", "",
                        Stability::kExperimental);
Counter cache_retries("leat_fetch_cache_retries_total",
                      "Reads retried because cached data was evicted or failed to read", "",
                      Stability::kExperimental);

const MetricFamily kMemory(MetricType::kGauge, "leat_fetch_memory_bytes",
                           "Memory of ranges in flight or recently fetched");
const MetricFamily kReadsWaiting(MetricType::kGauge, "leat_fetch_reads_waiting",
                                 "Reads that wait for memory");
const MetricFamily kReadBytes(MetricType::kGauge, "leat_fetch_read_bytes",
                              "Bytes of reads in flight", "", Stability::kExperimental);
const MetricFamily kRequestsInFlight(MetricType::kGauge, "leat_fetch_requests_in_flight",
                                     "Requests to stores in flight");

void count_coalesced(const std::vector<ReadPart>& parts, size_t own) {
  size_t awaited = std::ranges::count_if(parts, &ReadPart::in_flight);
  coalesced_total.add(awaited - std::min(awaited, own));
}

// Marks flights of a load that have readers: these may return for the rest.
void mark_wanted(const std::vector<ReadPart>& parts) {
  for (const ReadPart& part : parts) {
    if (part.reader) part.reader.flight()->wanted = true;
  }
}

// Bytes of reads in flight from any origin: together half of the memory, and one store three
// quarters of that. A read keeps its first parts while it waits for the rest.
FairSemaphore::Limits read_limits(uint64_t memory_bytes_max) {
  const uint64_t all = std::max(memory_bytes_max / 2, kFlightBytesMax);
  return {all, all, all - all / 4};
}

}  // namespace

Error stopping(const FileRef& ref) {
  return error(StatusCode::kCancelled, fmt::format("cannot read '{}': Leat is stopping", ref.key));
}

Result<> check_range(const FileRef& ref, ByteRange range) {
  if (range.offset <= ref.size && range.size <= ref.size - range.offset) return {};
  return error(StatusCode::kOutOfRange,
               fmt::format("cannot read {} bytes at {} of '{}': it has {} bytes", range.size,
                           range.offset, ref.key, ref.size));
}

FetcherImpl::FetcherImpl(FetcherOptions options, PageStore* store, SourceTable& sources,
                         Executor& executor)
    : memory_bytes_max_(options.memory_bytes_max),
      memory_(options.memory_bytes_max, options.unread_ttl, options.now),
      reads_(read_limits(options.memory_bytes_max)),
      runner_(options, store, sources, executor, table_, memory_),
      memory_gauge_(kMemory, [this] { return static_cast<double>(memory_.bytes()); }),
      reads_gauge_(kReadsWaiting, [this] { return static_cast<double>(reads_.waiting()); }),
      read_bytes_gauge_(kReadBytes, [this] { return static_cast<double>(reads_.in_use()); }),
      requests_gauge_(kRequestsInFlight,
                      [this] { return static_cast<double>(runner_.requests_in_flight()); }) {}

FetcherImpl::~FetcherImpl() {
  LEAT_CHECK(runner_.idle());
}

// Packed objects are fetched and written as a whole.
FlightTable::ClaimLimits FetcherImpl::claim_limits(const FileRef& ref, size_t flights_max) const {
  PageStore* store = runner_.store_for(ref);
  bool whole = store != nullptr && store->packed(ref);
  return {whole ? std::max(ref.size, kFlightBytesMax) : kFlightBytesMax, flights_max};
}

std::vector<ByteRange> FetcherImpl::missing(const FileRef& ref, ByteRange range,
                                            bool ask_store) const {
  PageStore* store = runner_.store_for(ref);
  if (store != nullptr && ask_store) return store->missing(ref, range);
  if (store != nullptr && store->packed(ref)) return {ByteRange{0, ref.size}};
  const uint64_t unit = store == nullptr ? runner_.read_bytes_min(ref) : kBlockBytes;
  return {range.widen(unit, ref.size)};
}

void FetcherImpl::trim_to_pages(const FileRef& ref, ByteRange read,
                                std::vector<ByteRange>& missing) const {
  PageStore* store = runner_.store_for(ref);
  if (store == nullptr || store->packed(ref)) return;
  uint64_t missing_bytes = 0;
  for (const ByteRange& range : missing) missing_bytes += range.size;
  // Some of it is cached, so the range was read before.
  if (missing_bytes < read.widen(kBlockBytes, ref.size).size) return;
  // There are more partial blocks than are remembered, and such a block would never be cached.
  if (partial_blocks_.is_crowded(ref.id, missing.front().offset / kBlockBytes)) return;
  const ByteRange pages = read.widen(kPageBytes, ref.size);
  ByteRange& all = missing.front();
  uint64_t begin = all.offset;
  uint64_t end = all.end();
  if (pages.offset > begin && !partial_blocks_.contains(ref.id, begin / kBlockBytes)) {
    begin = pages.offset;
  }
  if (pages.end() < end && !partial_blocks_.contains(ref.id, (end - 1) / kBlockBytes)) {
    end = pages.end();
  }
  all = {begin, end - begin};
}

// Without a page store a partial block in memory is in nobody's way.
void FetcherImpl::evict_if_partial(const FileRef& ref, const std::vector<ByteRange>& ranges) {
  if (!partial_blocks_.empty() && runner_.store_for(ref) != nullptr) evict_partial(ref, ranges);
}

void FetcherImpl::remember_partial(const Flight& flight) {
  if (!flight.has_partial_blocks() || runner_.store_for(*flight.file) == nullptr) return;
  const ByteRange& range = flight.range;
  if (range.offset % kBlockBytes != 0) {
    partial_blocks_.add(flight.file->id, range.offset / kBlockBytes);
  }
  if (range.end() % kBlockBytes != 0 && range.end() != flight.file->size) {
    partial_blocks_.add(flight.file->id, range.end() / kBlockBytes);
  }
}

// --- reading -------------------------------------------------------------------------------------

Task<Result<FairSemaphore::Permit>> FetcherImpl::admit(Context context, FileRefPtr ref,
                                                       ByteRange range) {
  FairSemaphore::Request request = fair_request(*ref, range.size);
  // A read from the disk does not wait behind reads of the same store when that hangs.
  if (PageStore* store = runner_.store_for(*ref); store && store->missing(*ref, range).empty()) {
    request.tenant ^= 1;
  }
  const ScopedSpan memory(context, "fetch.memory.wait");
  co_return co_await reads_.acquire(context, request, "a read that waits for memory");
}

Task<Result<Bytes>> FetcherImpl::read_direct(Context context, FileRefPtr ref, ByteRange range) {
  Result<Bytes> bytes = co_await runner_.read_source(ref, range, context);
  if (bytes) bytes_direct.add(range.size);
  co_return bytes;
}

Task<Result<Bytes>> FetcherImpl::read_in(Unit unit, Context context, FileRefPtr ref,
                                         ByteRange range) {
  auto token = runner_.enter();
  if (!token) co_return stopping(*ref);
  if (auto fits = check_range(*ref, range); !fits) co_return Error(fits.error());
  auto permit = co_await admit(context, ref, range);
  if (!permit) co_return Error(permit.error());
  if (ref->cache == CacheUse::kBypass) co_return co_await read_direct(context, ref, range);
  Bytes rope;
  for (unsigned tries = 0; rope.size() < range.size; ++tries) {
    LEAT_CHECK(tries <= kCacheTries);  // the last try does not use the page store
    if (auto alive = context.check("a read"); !alive) co_return Error(alive.error());
    ByteRange rest{range.offset + rope.size(), range.size - rope.size()};
    std::vector<ReadPart> parts = find_or_start(unit, ref, rest, tries < kCacheTries, *token);
    auto gathered = co_await gather(context, ref, std::move(parts), &rope);
    if (!gathered) co_return Error(gathered.error());
  }
  co_return rope;
}

std::vector<ReadPart> FetcherImpl::find_or_start(Unit unit, const FileRefPtr& ref, ByteRange range,
                                                 bool ask_store, const Gate::Holder& token) {
  for (unsigned tries = 1;; ++tries) {
    FlightTable::Lookup lookup = table_.lookup(ref->id, range);
    mark_wanted(lookup.parts);
    for (const FlightPtr& flight : lookup.fully_read) memory_.on_fully_read(flight);
    if (lookup.complete) return std::move(lookup.parts);
    std::vector<ByteRange> to_fetch;
    if (std::ranges::any_of(lookup.parts, &ReadPart::not_in_memory)) {
      to_fetch = missing(*ref, range, ask_store);
    }
    if (to_fetch.empty()) {
      count_coalesced(lookup.parts, 0);
      return std::move(lookup.parts);
    }
    if (unit == Unit::kPage) trim_to_pages(*ref, range, to_fetch);
    evict_if_partial(*ref, to_fetch);
    std::optional<uint64_t> generation;
    if (tries < kClaimTries) generation = lookup.generation;
    auto claim = table_.claim(ref, range, to_fetch, generation, claim_limits(*ref, SIZE_MAX));
    if (!claim) continue;
    mark_wanted(claim->parts);
    count_coalesced(claim->parts, claim->started.size());
    for (FlightPtr& flight : claim->started) {
      if (unit == Unit::kPage) remember_partial(*flight);
      runner_.launch(std::move(flight), FlightPriority::kDemand, {}, token.another());
    }
    return std::move(claim->parts);
  }
}

// Appends the parts to `rope` in order. Ends early, without an error, if the page store has dropped
// bytes meanwhile: the caller then looks up the rest again.
Task<Result<>> FetcherImpl::gather(Context context, FileRefPtr ref, std::vector<ReadPart> parts,
                                   Bytes* rope) {
  for (ReadPart& part : parts) {
    Result<Bytes> bytes = co_await take(context, ref, part, part.range.size, part.range.size);
    if (!bytes) co_return Error(bytes.error());
    if (bytes->empty()) co_return Result<>();
    if (parts.size() == 1 && rope->empty()) {
      *rope = *std::move(bytes);
    } else {
      rope->append(*bytes);
    }
  }
  co_return Result<>();
}

Task<Result<Bytes>> FetcherImpl::take(Context context, FileRefPtr ref, ReadPart& part,
                                      uint64_t least, uint64_t most) {
  const FlightPtr& flight = part.reader.flight();
  ByteRange range{part.range.offset, std::min(part.range.size, most)};
  Bytes bytes;
  if (part.in_memory()) {
    const ScopedSpan span(context, "fetch.memory.read");
    bytes = range.size == part.bytes.size() ? part.bytes : part.bytes.sub(0, range.size);
    bytes_memory.add(range.size);
  } else if (part.in_flight()) {
    LEAT_CO_TRY(bytes, co_await wait_for_bytes(context, part, range, least));
    range.size = bytes.size();
    bytes_source.add(range.size);
  } else {
    ScopedSpan span(context, "fetch.cache.read");
    Result<Bytes> cached = co_await read_cached(context, ref, range);
    if (!cached) {
      cache_retries.add();
      LEAT_CO_CHECK_OK(context.check("a read"));  // the reader's own end, or another try
      co_return Bytes();
    }
    bytes = *std::move(cached);
    bytes_cache.add(range.size);
  }
  if (flight != nullptr) count_delivered(flight, range);
  co_return bytes;
}

// Waits for `least` bytes of `range`, which begins the part; returns all that have arrived.
Task<Result<Bytes>> FetcherImpl::wait_for_bytes(Context context, const ReadPart& part,
                                                ByteRange range, uint64_t least) {
  ScopedSpan span(context, "fetch.store.wait");
  Flight& flight = *part.reader.flight();
  const uint64_t offset = range.offset - flight.range.offset;
  Result<uint64_t> arrived = co_await flight.buffer.wait(context, offset + least, "a read");
  span.adopt(part.trace);
  if (arrived) co_return *flight.buffer.slice(offset, std::min(*arrived - offset, range.size));
  co_return error(arrived.error().with_context(fmt::format(
      "cannot read {} bytes at {} of '{}'", range.size, range.offset, flight.file->key)));
}

Task<Result<Bytes>> FetcherImpl::read_cached(Context context, FileRefPtr ref, ByteRange range) {
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

// Holds its permit among the reads in flight until its first bytes have arrived. From then on it
// holds only the returned bytes, so a slow receiver does not block other reads.
class FetcherImpl::StreamedReadImpl : public StreamedRead {
 public:
  StreamedReadImpl(FetcherImpl& fetcher, FileRefPtr ref, ByteRange range)
      : fetcher_(fetcher), ref_(std::move(ref)), rest_(range) {}

  Task<Result<Bytes>> next(Context context) override {
    auto token = fetcher_.runner_.enter();
    if (!token) co_return stopping(*ref_);
    if (rest_.empty()) co_return Bytes();
    std::optional<FairSemaphore::Permit> permit;
    if (!started_) {
      LEAT_CO_CHECK_OK(check_range(*ref_, rest_));
      LEAT_CO_TRY(permit, co_await fetcher_.admit(context, ref_, rest_));
      started_ = true;
    }
    Result<Bytes> bytes = Bytes();
    if (ref_->cache == CacheUse::kBypass) {
      bytes = co_await fetcher_.read_direct(context, ref_, rest_);
    } else {
      bytes = co_await next_part(context, *token);
    }
    if (bytes) rest_ = {rest_.offset + bytes->size(), rest_.size - bytes->size()};
    co_return bytes;
  }

 private:
  // `token` is the caller's, which waits for this task.
  Task<Result<Bytes>> next_part(Context context, const Gate::Holder& token) {
    for (unsigned tries = 0;; ++tries) {
      LEAT_CHECK(tries <= kCacheTries);  // the last try does not use the page store
      if (auto alive = context.check("a read"); !alive) co_return Error(alive.error());
      if (at_ == parts_.size()) {
        parts_ = fetcher_.find_or_start(Unit::kBlock, ref_, rest_, tries < kCacheTries, token);
        at_ = 0;
      }
      ReadPart& part = parts_[at_];
      const uint64_t least = std::min(part.range.size, kBlockBytes);
      Result<Bytes> bytes = co_await fetcher_.take(context, ref_, part, least, kStreamedBytesMax);
      if (bytes && bytes->empty()) {
        parts_.clear();
        at_ = 0;
        continue;
      }
      if (bytes) advance(part, bytes->size());
      co_return bytes;
    }
  }

  void advance(ReadPart& part, uint64_t bytes) {
    part.range = {part.range.offset + bytes, part.range.size - bytes};
    if (part.range.empty()) {
      part = ReadPart();
      ++at_;
    } else if (part.in_memory()) {
      part.bytes = part.bytes.sub(bytes, part.range.size);
    }
  }

  FetcherImpl& fetcher_;
  const FileRefPtr ref_;
  ByteRange rest_;
  std::vector<ReadPart> parts_;  // of `rest_`, from `at_` on
  size_t at_ = 0;
  bool started_ = false;
};

StreamedReadPtr FetcherImpl::stream(FileRefPtr ref, ByteRange range) {
  return std::make_shared<StreamedReadImpl>(*this, std::move(ref), range);
}

std::optional<Bytes> FetcherImpl::try_read(const FileRef& ref, ByteRange range) {
  if (!check_range(ref, range)) return std::nullopt;
  if (range.empty()) return Bytes();
  if (ref.cache == CacheUse::kBypass) return std::nullopt;
  FlightTable::Lookup lookup = table_.lookup(ref.id, range);
  mark_wanted(lookup.parts);
  for (const FlightPtr& flight : lookup.fully_read) memory_.on_fully_read(flight);
  if (std::ranges::any_of(lookup.parts, &ReadPart::in_flight)) return std::nullopt;
  PageStore* store = runner_.store_for(ref);
  uint64_t from_cache = 0;
  for (ReadPart& part : lookup.parts) {
    if (part.in_memory()) continue;
    auto hot = store == nullptr ? std::nullopt : store->try_read(ref, part.range);
    if (!hot) return std::nullopt;
    part.bytes = *std::move(hot);
    from_cache += part.range.size;
  }
  bytes_memory.add(range.size - from_cache);
  bytes_cache.add(from_cache);
  if (lookup.parts.size() == 1) return std::move(lookup.parts.front().bytes);
  Bytes rope;
  for (ReadPart& part : lookup.parts) {
    if (part.reader && !lookup.complete) count_delivered(part.reader.flight(), part.range);
    rope.append(part.bytes);
  }
  return rope;
}

Task<Result<SourceFilePtr>> FetcherImpl::open_file(Context context, FileRefPtr ref) {
  auto token = runner_.enter();
  if (!token) co_return stopping(*ref);
  if (ref->cache != CacheUse::kBypass && !has_local_file(*ref)) co_return SourceFilePtr();
  co_return co_await runner_.open_file(context, ref);
}

Task<> FetcherImpl::stop() {
  runner_.close();
  co_await runner_.wait_idle();
}

std::unique_ptr<Fetcher> Fetcher::create(FetcherOptions options, PageStore* store,
                                         SourceTable& sources, Executor& executor) {
  return std::make_unique<FetcherImpl>(std::move(options), store, sources, executor);
}

}  // namespace leat
