// SPDX-License-Identifier: Apache-2.0
#include "fetch/flight_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "runtime/scoped_span.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// A request costs about as much as this many bytes of one.
constexpr uint64_t kCostMin = kBlockBytes;

// Limits of memory for flights. A store that hangs leaves a quarter to the others; prefetch and
// loads leave a quarter to demand reads.
FairSemaphore::Limits in_flight_limits(uint64_t memory_bytes_max) {
  const uint64_t all = std::max(memory_bytes_max, kInFlightBytesMin);
  return {all, all - all / 4, all - all / 4};
}

// Loads take half, so that prefetch has the rest of what demand reads leave.
FairSemaphore::Limits load_limits(uint64_t memory_bytes_max) {
  const uint64_t half = std::max(memory_bytes_max, kInFlightBytesMin) / 2;
  return {half, half, half};
}

Counter flights_total("leat_fetch_store_requests_total", "Requests to stores");
Counter flights_failed("leat_fetch_store_requests_failed_total", "Requests to stores that failed");
Counter source_bytes("leat_fetch_source_bytes_total",
                     "Bytes fetched from stores, prefetch included");
Counter write_skipped_bytes(
    "leat_fetch_cache_write_skipped_bytes_total",
    "Fetched bytes not written to the cache: no free space, or the write failed");

// The object is removed or shorter: either way no longer the opened version.
Status as_changed(const Source& source, const FileRef& file, const Status& why) {
  if (why.code() != StatusCode::kNotFound && why.code() != StatusCode::kOutOfRange) return why;
  return {StatusCode::kVersionChanged,
          fmt::format("{} has no '{}' of this version any more; open it again", source.name(),
                      file.key),
          why};
}

// The blocks of which `range` has all bytes.
ByteRange whole_blocks(ByteRange range, uint64_t file_size) {
  const uint64_t begin = align_up(range.offset, kBlockBytes);
  const uint64_t end = range.end() == file_size ? file_size : align_down(range.end(), kBlockBytes);
  return {begin, end > begin ? end - begin : 0};
}

}  // namespace

FairSemaphore::Request fair_request(const FileRef& file, uint64_t bytes) {
  const uint64_t small = bytes <= kSmallRequestBytes ? 1 : 0;
  return {.count = bytes,
          .tenant = file.store.hash64(),
          .flow = (file.id.hash64() & ~uint64_t{1}) | small,
          .cost = std::max(bytes, kCostMin)};
}

FlightRunner::FlightRunner(const FetcherOptions& options, PageStore* store, SourceTable& sources,
                           Executor& executor, FlightTable& table, BufferCache& memory)
    : request_timeout_(options.request_timeout),
      write_timeout_(options.write_timeout),
      unread_ttl_(options.unread_ttl),
      requests_max_(options.requests_max),
      store_(store),
      sources_(sources),
      executor_(executor),
      table_(table),
      memory_(memory),
      in_flight_(in_flight_limits(options.memory_bytes_max)),
      load_bytes_(load_limits(options.memory_bytes_max)) {}

StoreLimiter& FlightRunner::limiter(const StoreId& store) {
  std::lock_guard lock(limiters_mutex_);
  auto& limiter = limiters_[store];
  if (limiter == nullptr) limiter = std::make_unique<StoreLimiter>(requests_max_);
  return *limiter;
}

uint64_t FlightRunner::read_bytes_min(const FileRef& file) const {
  const SourcePtr source = sources_.find(file.store);
  return source == nullptr ? kBlockBytes : source->capabilities().read_bytes_min;
}

std::optional<StoreLimiter::Permit> FlightRunner::try_prefetch(const FileRef& file,
                                                               uint64_t bytes) {
  auto permit = limiter(file.store).try_prefetch(bytes, concurrency_hint(file, bytes));
  if (!permit) return std::nullopt;
  FairSemaphore::Request request = fair_request(file, bytes);
  request.low_priority = true;
  request.count = held_bytes(bytes);
  auto memory = in_flight_.try_acquire(request);
  if (!memory) return std::nullopt;
  permit->memory = *std::move(memory);
  return permit;
}

unsigned FlightRunner::concurrency_hint(const FileRef& file, uint64_t bytes) const {
  const SourcePtr source = sources_.find(file.store);
  return source == nullptr ? 1 : source->concurrency_hint(bytes);
}

// The order is the same for all flights. A flight with memory waits for no permit: it releases the
// memory after a request and a write, whatever its readers do.
Task<Result<StoreLimiter::Permit>> FlightRunner::admit(Context context, FileRefPtr file,
                                                       uint64_t bytes, bool low_priority) {
  ScopedSpan span(context, "fetch.limiter.wait");
  FairSemaphore::Request memory = fair_request(*file, bytes);
  memory.count = held_bytes(bytes);
  memory.low_priority = low_priority;
  FairSemaphore::Request one = memory;
  one.count = 1;
  one.tenant = 0;  // its semaphore belongs to one store
  auto permit = co_await limiter(file->store).acquire(context, one, concurrency_hint(*file, bytes));
  if (!permit) co_return Error(permit.error());
  auto granted = co_await in_flight_.acquire(context, memory, "waiting for memory for a request");
  if (!granted) co_return Error(granted.error());
  permit->memory = *std::move(granted);
  co_return permit;
}

Task<Result<StoreLimiter::Permit>> FlightRunner::admit_load(Context context, FileRefPtr file,
                                                            uint64_t bytes) {
  FairSemaphore::Request request = fair_request(*file, bytes);
  request.count = held_bytes(bytes);
  LEAT_CO_TRY(FairSemaphore::Permit share,
              co_await load_bytes_.acquire(context, request, "waiting for memory for a load"));
  auto permit = co_await admit(context, file, bytes, true);
  if (permit) permit->load_memory = std::move(share);
  co_return permit;
}

void FlightRunner::remove_evicted(const BufferCache::Evicted& evicted) {
  for (const FlightPtr& flight : evicted) table_.remove(flight);
}

void FlightRunner::launch(FlightPtr flight, FlightPriority priority, StoreLimiter::Permit permit,
                          Gate::Holder token) {
  flights_total.add();
  if (priority != FlightPriority::kBatch) flight->wanted = true;
  // It is in the table already, so either close() saw it there or this check sees the closing.
  if (gate_.closed()) {
    flight->cancel_when_unread = true;
    flight->cancel_if_unread();
  }
  begin_check(token);
  executor_.spawn(run(std::move(token), std::move(flight), priority, std::move(permit)));
}

Task<> FlightRunner::run(Gate::Holder token, FlightPtr flight, FlightPriority priority,
                         StoreLimiter::Permit permit) {
  Result<StoreLimiter::Permit> admitted = std::move(permit);
  if (priority == FlightPriority::kDemand) {
    const Context context =
        Context::background().with_cancel(flight->cancel.get_token()).with_trace(flight->trace);
    admitted = co_await admit(context, flight->file, flight->range.size, false);
    remove_evicted(memory_.reserve(flight->held_bytes()));
  }
  if (!admitted) {
    fail(flight, admitted.error());
    co_return;
  }
  Result<> got = co_await request(flight);
  if (!got) {
    fail(flight, got.error());
    co_return;
  }
  source_bytes.add(flight->range.size);
  limiter(flight->file->store)
      .update(flight->range.size, concurrency_hint(*flight->file, flight->range.size));
  // Readers get the bytes before the disk does.
  flight->buffer.complete();
  table_.completed(flight);
  Result<bool> stored = co_await write_to_cache(flight);
  if (flight->file->version.known()) {
    // A partial block that was read is not worth more memory than one on disk.
    const bool is_partial = store_for(*flight->file) != nullptr && flight->has_partial_blocks();
    remove_evicted(memory_.on_stored(flight, stored.has_value() || is_partial));
    begin_sweep(token);
  } else {
    memory_.release(flight->held_bytes());
    table_.remove(flight);
  }
  flight->stored->set(std::move(stored));
}

Result<SourcePtr> FlightRunner::source_of(const FileRef& file) const {
  if (SourcePtr source = sources_.find(file.store)) return source;
  return error(StatusCode::kUnavailable,
               fmt::format("no mount uses the store of '{}' any more, and these bytes are not "
                           "cached; mount it again",
                           file.key));
}

Task<Result<>> FlightRunner::request(FlightPtr flight) {
  // No deadline: the source waits for a store that does not answer.
  Context context =
      Context::background().with_cancel(flight->cancel.get_token()).with_trace(flight->trace);
  // If the version is unknown, no byte may be delivered before the last has arrived.
  ReadProgress progress;
  if (flight->file->version.known()) progress = ReadProgress(flight->buffer);
  ++requests_in_flight_;
  Result<> got =
      co_await fill(flight->file, flight->range, context, flight->buffer.open(), progress);
  --requests_in_flight_;
  co_return got;
}

Task<Result<Bytes>> FlightRunner::read_source(FileRefPtr file, ByteRange range, Context context) {
  Buffer buffer(range.size);
  Result<> got =
      co_await fill(std::move(file), range, std::move(context), buffer.span(), ReadProgress());
  if (!got) co_return Error(got.error());
  co_return Bytes(std::move(buffer));
}

Task<Result<>> FlightRunner::fill(FileRefPtr file, ByteRange range, Context context,
                                  std::span<std::byte> into, ReadProgress progress) {
  Result<SourcePtr> source = source_of(*file);
  if (!source) co_return Error(source.error());
  ScopedSpan span(context, "fetch.store.read");
  span.note([&] {
    return fmt::format("{} at {} of {}/{}", format_bytes(range.size), range.offset,
                       (*source)->name(), file->key);
  });
  ReadRequest read{file->key, range, file->version};
  read.object_size = file->size;
  read.progress = progress;
  Result<> got = co_await (*source)->read(context, std::move(read), into);
  if (got) co_return got;
  co_return Error(as_changed(**source, *file, got.error()));
}

bool FlightRunner::has_local_file(const FileRef& file) const {
  if (!file.version.known()) return false;
  const SourcePtr source = sources_.find(file.store);
  return source != nullptr && source->has_local_file(file.key, file.size);
}

bool FlightRunner::take_cache_miss(const FileRef& file) const {
  const SourcePtr source = sources_.find(file.store);
  const auto shared = source == nullptr ? std::nullopt : source->take_cache_miss(file.key);
  return shared.value_or(file.cache == CacheUse::kDisk);
}

Task<Result<SourceFilePtr>> FlightRunner::open_file(Context context, FileRefPtr file) {
  Result<SourcePtr> source = source_of(*file);
  if (!source) co_return Error(source.error());
  OpenRequest request{file->key, file->version, file->size};
  Result<SourceFilePtr> opened = co_await (*source)->open_file(context, std::move(request));
  if (opened) co_return opened;
  co_return Error(as_changed(**source, *file, opened.error()));
}

Task<Result<bool>> FlightRunner::write_to_cache(FlightPtr flight) {
  PageStore* store = store_for(*flight->file);
  if (store == nullptr) co_return error(StatusCode::kUnsupported, "there is no page store");
  Context context = Context::background().with_timeout(write_timeout_);
  const ByteRange whole = whole_blocks(flight->range, flight->file->size);
  Result<> written;
  if (!whole.empty()) {
    Bytes bytes = *flight->buffer.slice(whole.offset - flight->range.offset, whole.size);
    written = co_await store->write(context, flight->file, whole.offset, std::move(bytes));
  }
  if (written && whole.size < flight->range.size) {
    co_return error(StatusCode::kUnsupported, "the page store has whole blocks only");
  }
  if (written) co_return true;
  write_skipped_bytes.add(whole.size);
  if (written.error().code() != StatusCode::kNoSpace) {
    log::warning("'{}' was read but not cached: {}", flight->file->key,
                 written.error().to_string());
  }
  co_return Error(written.error());
}

void FlightRunner::fail(const FlightPtr& flight, const Status& why) {
  flights_failed.add();
  memory_.release(flight->held_bytes());
  table_.remove(flight);  // first, so that a new reader starts a new request
  flight->buffer.fail(why);
  flight->stored->set(Error(why));
}

void FlightRunner::begin_sweep(const Gate::Holder& token) {
  if (!memory_.any_to_evict() || sweeping_.exchange(true)) return;
  executor_.spawn(sweep(token.another()));
}

// Runs while something can be evicted, so that an idle host also releases its memory.
Task<> FlightRunner::sweep(Gate::Holder) {
  const Context context = Context::background().with_cancel(closing_.get_token());
  do {
    while (memory_.any_to_evict()) {
      Result<> slept = co_await sleep_for(context, unread_ttl_);
      if (!slept) co_return;
      remove_evicted(memory_.evict_unread());
    }
    sweeping_ = false;
    // A flight that was stored meanwhile relied on this task.
  } while (memory_.any_to_evict() && !sweeping_.exchange(true));
}

void FlightRunner::begin_check(const Gate::Holder& token) {
  if (checking_ || checking_.exchange(true)) return;
  executor_.spawn(end_unread(token.another()));
}

Task<> FlightRunner::end_unread(Gate::Holder) {
  const Context context = Context::background().with_cancel(closing_.get_token());
  do {
    while (any_in_flight()) {
      Result<> slept = co_await sleep_for(context, request_timeout_ / 2);
      if (!slept) co_return;
      check_unread();
    }
    checking_ = false;
    // A flight that was launched meanwhile relied on this task.
  } while (any_in_flight() && !checking_.exchange(true));
}

bool FlightRunner::any_in_flight() const {
  return std::ranges::any_of(table_.all(),
                             [](const FlightPtr& flight) { return !flight->stored->ready(); });
}

void FlightRunner::check_unread() {
  for (const FlightPtr& flight : table_.all()) {
    if (flight->stored->ready()) continue;
    const bool before = std::exchange(flight->unread_before, flight->readers == 0);
    if (before && table_.remove_unread(flight)) flight->cancel.request_stop();
  }
}

void FlightRunner::close() {
  gate_.close();
  closing_.request_stop();
  for (const FlightPtr& flight : table_.all()) {
    flight->cancel_when_unread = true;
    flight->cancel_if_unread();
  }
}

}  // namespace leat
