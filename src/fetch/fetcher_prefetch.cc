// SPDX-License-Identifier: Apache-2.0
// The part of FetcherImpl that fetches bytes without a reader: prefetch and loads.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "fetch/fetcher_impl.h"

namespace leat {
namespace {

// Bytes of a load in flight for one call.
constexpr uint64_t kEnsureBytes = 4 * kFlightBytesMax;

const char* why_not_cached(const FileRef& ref) {
  if (!ref.version.known()) return "its store reports no version for it";
  if (ref.cache == CacheUse::kDisk) return "there is none; start with a cache directory";
  return "its mount does not cache it on disk; mount with the option cache=always";
}

}  // namespace

bool FetcherImpl::prefetch(FileRefPtr ref, ByteRange range) {
  range = range.clamp(ref->size);
  if (range.empty() || !ref->version.known() || ref->cache == CacheUse::kBypass) return true;
  auto token = runner_.enter();
  if (!token) return true;
  // Bounded, so that concurrent changes of the table cannot keep a frontend's thread here.
  for (unsigned tries = 0; tries < kClaimTries; ++tries) {
    uint64_t generation = 0;
    if (table_.covers(ref->id, range, &generation)) return true;
    std::vector<ByteRange> to_fetch = missing(*ref, range, true);
    if (to_fetch.empty()) return true;
    evict_if_partial(*ref, to_fetch);
    const PrefetchResult result = prefetch_one(ref, to_fetch, generation, *token);
    if (result != PrefetchResult::kCheckAgain) return result == PrefetchResult::kNothingMissing;
  }
  return false;
}

// Starts one flight, if bytes are missing and a request and memory are free.
FetcherImpl::PrefetchResult FetcherImpl::prefetch_one(const FileRefPtr& ref,
                                                      const std::vector<ByteRange>& missing,
                                                      uint64_t generation,
                                                      const Gate::Holder& token) {
  const FlightTable::ClaimLimits one = claim_limits(*ref, 1);
  uint64_t most = 0;
  for (const ByteRange& range : missing) most += range.size;
  most = std::min(most, one.flight_bytes_max);
  auto permit = runner_.try_prefetch(*ref, most);
  if (!permit) return PrefetchResult::kNoCapacity;
  // Before the claim, since others may wait for a flight from the moment it is in the table.
  BufferCache::Reservation reservation = memory_.try_reserve(held_bytes(most));
  runner_.remove_evicted(reservation.evicted);
  if (!reservation.granted) return PrefetchResult::kNoCapacity;
  auto claim = table_.claim(ref, {}, missing, generation, one);
  if (!claim || claim->started.empty()) {
    memory_.release(held_bytes(most));
    // Without a claim the table has changed, perhaps by freeing room just now: check again.
    return claim ? PrefetchResult::kNothingMissing : PrefetchResult::kCheckAgain;
  }
  FlightPtr flight = std::move(claim->started.front());
  memory_.release(held_bytes(most) - flight->held_bytes());
  permit->memory.shrink_to(flight->held_bytes());
  runner_.launch(std::move(flight), FlightPriority::kPrefetch, *std::move(permit), token.another());
  return PrefetchResult::kCheckAgain;
}

Task<Result<uint64_t>> FetcherImpl::ensure(Context context, FileRefPtr ref, ByteRange range) {
  auto token = runner_.enter();
  if (!token) co_return stopping(*ref);
  if (auto fits = check_range(*ref, range); !fits) co_return Error(fits.error());
  if (runner_.store_for(*ref) == nullptr) {
    co_return error(StatusCode::kUnsupported, fmt::format("cannot load '{}' into the cache: {}",
                                                          ref->key, why_not_cached(*ref)));
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

// Returns null if flights cover what the page store lacks of `range`.
FlightPtr FetcherImpl::claim_unstored(const FileRefPtr& ref, ByteRange range, uint64_t bytes_max) {
  for (unsigned tries = 1;; ++tries) {
    uint64_t now = 0;
    table_.covers(ref->id, range, &now);
    const std::vector<ByteRange> to_fetch = runner_.store_for(*ref)->missing(*ref, range);
    if (to_fetch.empty()) return nullptr;
    std::optional<uint64_t> generation;
    if (tries < kClaimTries) generation = now;
    auto claim = table_.claim(ref, {}, to_fetch, generation, {bytes_max, 1});
    if (claim) return claim->started.empty() ? nullptr : std::move(claim->started.front());
  }
}

// Each flight is claimed when it may start, never before: a reader of the same bytes starts its own
// flight meanwhile, ahead of loads, and the load joins that. One flight at a time: its buffer is
// evicted when it is stored, and the failure of one ends the piece.
Task<Result<uint64_t>> FetcherImpl::ensure_piece(Context context, FileRefPtr ref, ByteRange range,
                                                 Gate::Holder token) {
  PageStore* store = runner_.store_for(*ref);
  const uint64_t flight_bytes_max = claim_limits(*ref, 1).flight_bytes_max;
  uint64_t fetched = 0;
  // Beyond that the page store evicts the bytes as soon as they are stored.
  const uint64_t fetched_max = 2 * std::max(range.size, ref->size);
  while (fetched < fetched_max) {
    if (auto alive = context.check("a load"); !alive) co_return Error(alive.error());
    const std::vector<ByteRange> missing = store->missing(*ref, range);
    if (missing.empty()) break;
    evict_partial(*ref, missing);
    const uint64_t most = std::min(table_.unclaimed_bytes(ref->id, missing), flight_bytes_max);
    if (most == 0) {
      LEAT_CO_TRY(const bool any, co_await wait_for_flights(context, ref, range));
      if (any) continue;
      break;
    }
    LEAT_CO_TRY(StoreLimiter::Permit permit, co_await runner_.admit_load(context, ref, most));
    FlightPtr flight = claim_unstored(ref, range, most);
    if (flight == nullptr) continue;
    const FlightReader reader(flight);
    runner_.remove_evicted(memory_.reserve(flight->held_bytes()));
    permit.memory.shrink_to(flight->held_bytes());
    fetched += flight->range.size;
    runner_.launch(flight, FlightPriority::kBatch, std::move(permit), token.another());
    LEAT_CO_CHECK_OK(co_await wait_until_loaded(context, ref, flight));
  }
  co_return fetched;
}

// Waits until what others fetch of `range` is in the page store. Returns false if they fetch
// nothing.
Task<Result<bool>> FetcherImpl::wait_for_flights(Context context, FileRefPtr ref, ByteRange range) {
  auto claim = table_.claim(ref, range, {}, std::nullopt, {kFlightBytesMax, 0});
  bool any = false;
  for (ReadPart& part : claim->parts) {
    if (!part.reader) continue;
    any = true;
    LEAT_CO_CHECK_OK(co_await wait_until_loaded(context, ref, part.reader.flight()));
    part = ReadPart();
  }
  co_return any;
}

Task<Result<>> FetcherImpl::wait_until_loaded(Context context, FileRefPtr ref, FlightPtr flight) {
  Result<> stored = co_await wait_until_stored(std::move(context), ref, flight);
  if (stored) co_return stored;
  co_return error(
      stored.error().with_context(fmt::format("cannot load {} bytes at {} of '{}' into the cache",
                                              flight->range.size, flight->range.offset, ref->key)));
}

// Returns when the flight's bytes are in the page store; writes them again if they were rejected or
// dropped since. Partial blocks stay missing.
Task<Result<>> FetcherImpl::wait_until_stored(Context context, FileRefPtr ref, FlightPtr flight) {
  const bool fresh = !flight->stored->ready();
  Result<bool> stored = co_await flight->stored->wait(context, "a load");
  if (flight->has_partial_blocks() && context.check("a load")) co_return Result<>();
  // kUnsupported: the flight started for a reader on a mount that does not cache this file.
  if (fresh && (stored || stored.error().code() != StatusCode::kUnsupported)) {
    if (!stored) co_return Error(stored.error());
    co_return Result<>();
  }
  std::optional<Bytes> bytes = flight->buffer.slice(0, flight->range.size);
  LEAT_CHECK(bytes || !stored);
  if (!bytes) co_return Error(stored.error());
  PageStore* store = runner_.store_for(*ref);
  if (store->missing(*ref, flight->range).empty()) co_return Result<>();
  uint64_t offset = flight->range.offset;
  auto written = co_await store->write(context, ref, offset, *std::move(bytes));
  co_return written;
}

Task<> FetcherImpl::wait_for_writes(Context context, FileId id) {
  for (const FlightPtr& flight : table_.of(id)) {
    if (!flight->buffer.slice(0, flight->range.size)) continue;
    auto written = co_await flight->stored->wait(context, "pending cache writes");
    static_cast<void>(written);  // rejected, or the caller's end
  }
}

void FetcherImpl::evict_partial(const FileRef& ref, const std::vector<ByteRange>& ranges) {
  for (const FlightPtr& flight : table_.partial_within(ref.id, ranges)) {
    if (memory_.evict(flight)) table_.remove(flight);
  }
}

uint64_t FetcherImpl::evict(const FileId& id) {
  uint64_t bytes = 0;
  for (const FlightPtr& flight : table_.of(id)) {
    if (!memory_.evict(flight)) continue;
    bytes += flight->range.size;
    table_.remove(flight);
  }
  return bytes;
}

}  // namespace leat
