// SPDX-License-Identifier: Apache-2.0
// Fetcher: the read path of one host: bytes in flight, local cache, source. Single flight: any byte
// of a file version is requested from the store once, however many readers want it concurrently.
// Readers get bytes before the disk does. A file's CacheUse limits this: kMemory skips the page
// store; with kBypass each reader requests the source itself. Such reads are not shared or
// prefetched, since the source is as near as the cache. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "cache/page_store.h"
#include "fetch/page_source.h"
#include "fetch/streamed_read.h"
#include "runtime/executor.h"
#include "source/source_table.h"

namespace leat {

struct FetcherOptions {
  // Memory of ranges in flight, at least 16 MiB, and of ranges just fetched, which stay a while
  // because their reader is expected soon. Counts whole buffers and the metadata of each range.
  // Reads in flight hold at most half as much in addition. If the memory is in use, reads wait.
  uint64_t memory_bytes_max = 256 * kMiB;
  // Concurrent requests to one store, of small reads and of large ones. Fewer where the source
  // takes fewer (Source::concurrency_hint). Prefetch leaves a quarter to demand reads. A request
  // counts until its bytes are in the page store, so that a slow disk slows requests down and does
  // not fill the memory.
  unsigned requests_max = 1024;
  // A request to a store continues while a reader or a load waits for it: the source bounds that
  // time (io_timeout). A request without waiters ends after this time.
  Clock::duration request_timeout = std::chrono::seconds(60);
  // Time limit of one write to the page store; after it the bytes are not cached.
  Clock::duration write_timeout = std::chrono::seconds(30);
  // A fetched range is read within this time if its reader is alive. After it, the range is evicted
  // if the page store has it too, and otherwise may be evicted for prefetch.
  Clock::duration unread_ttl = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

struct FetcherStats {
  uint64_t memory_bytes;        // in use now: buffers and the metadata of each range
  uint64_t requests_in_flight;  // to stores
  uint64_t files;               // versions with bytes in memory or in flight
};

class Fetcher : public PageSource {
 public:
  // Creates a fetcher. `store` may be null (no cache). The arguments must outlive it, and stop()
  // must have ended before it is destroyed.
  static std::unique_ptr<Fetcher> create(FetcherOptions options, PageStore* store,
                                         SourceTable& sources, Executor& executor);

  // Like read(), for a reader that is not expected to read what is near. A block that the range
  // covers in part is fetched in part (pages of 4 KiB), and stays in memory only. It is fetched
  // whole when it is read again.
  virtual Task<Result<Bytes>> read_at_random(Context context, FileRefPtr ref, ByteRange range) {
    return read(std::move(context), std::move(ref), range);
  }

  // A read for a caller that forwards the bytes. Sends no request before its first next(), then
  // requests the whole range, as read() does. It must not outlive the fetcher; it does not delay
  // stop().
  virtual StreamedReadPtr stream(FileRefPtr ref, ByteRange range) = 0;

  // Whether another process of this host may pass a file that is not of CacheUse::kBypass, so that
  // open_file() is worth its wait. Never waits.
  virtual bool has_local_file(const FileRef& ref) const {
    static_cast<void>(ref);
    return false;  // a fetcher without sources
  }
  // Whether a file that was just read was missing in the cache that keeps it: this host's, or the
  // one that its source shares with other hosts.
  virtual bool take_cache_miss(const FileRef& ref) { return ref.cache == CacheUse::kDisk; }
  // Opens a file of CacheUse::kBypass, or one that another process passes, so that the reader reads
  // it directly. Returns null if that is not possible; read() serves it then. Returns
  // kVersionChanged if this version no longer exists.
  virtual Task<Result<SourceFilePtr>> open_file(Context context, FileRefPtr ref) {
    static_cast<void>(context);
    static_cast<void>(ref);
    co_return SourceFilePtr();  // a fetcher without sources
  }

  // Prefetch: fetches the missing bytes of `range` in the background, in one request if they are
  // contiguous. Returns at once. Returns false if memory or requests were lacking for some of it:
  // retry after others have ended.
  virtual bool prefetch(FileRefPtr ref, ByteRange range) = 0;

  // Limit of prefetched bytes that are only in memory and wait for their readers. Beyond it a
  // demand read would evict the bytes that are needed next.
  virtual uint64_t uncached_prefetch_bytes_max() const { return UINT64_MAX; }  // no memory

  // For load: returns when `range` is in the page store, with the number of fetched bytes. Returns
  // kNoSpace if the page store is full, kUnsupported if there is none or the file is not cached.
  // Bytes without another reader are afterwards in the page store only.
  virtual Task<Result<uint64_t>> ensure(Context context, FileRefPtr ref, ByteRange range) = 0;

  // For free, before the page store drops this version: waits until the page store has accepted or
  // rejected all arrived bytes. Does not wait for bytes in flight.
  virtual Task<> wait_for_writes(Context context, FileId id) {
    static_cast<void>(context);
    static_cast<void>(id);
    co_return;  // a fetcher without a cache
  }
  // For free: evicts this version's bytes from memory, except those in flight. Returns their
  // number.
  virtual uint64_t evict(const FileId& id) {
    static_cast<void>(id);
    return 0;  // a fetcher without a cache
  }

  // Rejects new reads and waits until nothing is in flight, cache writes included. Cancels requests
  // without waiters.
  virtual Task<> stop() = 0;

  virtual FetcherStats stats() const = 0;
};

}  // namespace leat
