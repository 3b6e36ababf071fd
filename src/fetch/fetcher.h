// SPDX-License-Identifier: Apache-2.0
// Fetcher: the PageSource chain of one host: bytes under way, local cache, source. Single flight:
// any byte of a file version is asked of the store once, however many readers want it at the same
// time. Bytes reach readers before they reach the disk. What a file's CacheUse says is not kept is
// not: kMemory goes by the same way but for the page store; kNone is asked of the source by each
// reader, neither shared nor fetched ahead, since the source is as near as the cache. Thread-safe.
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
  // Memory of ranges under way, at least 16 MiB, and of those just fetched, which are kept a while
  // because their reader is about to come: of whole buffers, and of what belongs to each range.
  // Reads under way hold at most half as much beside it. Where that is taken, reads wait.
  uint64_t memory_bytes_max = 256 * kMiB;
  // Requests to one store under way at once; look-ahead leaves a quarter of them to demand reads.
  // A request counts until its bytes are in the page store, so that a slow disk slows the requests
  // down and does not fill the memory.
  unsigned requests_max = 32;
  // A request to a store goes on for as long as a reader or a load waits for it: the source bounds
  // that (io_timeout). One for which nothing waits is ended after so long.
  Clock::duration request_timeout = std::chrono::seconds(60);
  // Of one write to the page store; after it the bytes are given up for the cache.
  Clock::duration write_timeout = std::chrono::seconds(30);
  // Within so long a range that was fetched is read, if its reader is alive. After it the range is
  // given up where the page store has it, too, and for look-ahead.
  Clock::duration unread_young = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

struct FetcherStats {
  uint64_t memory_bytes;        // held now: buffers, and what belongs to each range
  uint64_t requests_in_flight;  // to stores
  uint64_t files;               // versions with bytes in memory or under way
};

class Fetcher : public PageSource {
 public:
  // `store` may be null (no cache); all must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<Fetcher> create(FetcherOptions options, PageStore* store,
                                         SourceTable& sources, Executor& executor);

  // A read for who passes the bytes on. Asks for nothing before its first next(), then for all of
  // it, as read() does. It must not outlive the fetcher; it does not hold up stop().
  virtual StreamedReadPtr stream(FileRefPtr ref, ByteRange range) = 0;

  // Whether another process of this host may give a file that is not of CacheUse::kNone, so that
  // open_file() is worth its wait. Never waits.
  virtual bool hands_over(const FileRef& ref) const {
    static_cast<void>(ref);
    return false;  // of one without sources
  }
  // A file of CacheUse::kNone, open where it is, or one that is handed over, for its reader to read
  // without us. Null where that is not to be had; read() serves it then. kChanged when this version
  // is gone.
  virtual Task<Result<SourceFilePtr>> open_file(Context context, FileRefPtr ref) {
    static_cast<void>(context);
    static_cast<void>(ref);
    co_return SourceFilePtr();  // of one without sources
  }

  // Look-ahead: fetches what of `range` is missing, in one request if it is one piece, in the
  // background. Returns at once. False when there was no memory or request left for some of it:
  // worth another try once others have ended.
  virtual bool prefetch(FileRefPtr ref, ByteRange range) = 0;

  // Of what is fetched ahead and kept nowhere but in memory, so much may wait for its readers: with
  // more a read that had to be fetched itself would push out what is wanted next.
  virtual uint64_t unkept_ahead_bytes_max() const { return UINT64_MAX; }  // of one without memory

  // For load: returns when `range` is in the page store. The bytes that had to be fetched. kNoSpace
  // when the page store has no room, kUnsupported when there is none or the file is not to be kept.
  // What nobody reads meanwhile is in the page store alone then.
  virtual Task<Result<uint64_t>> ensure(Context context, FileRefPtr ref, ByteRange range) = 0;

  // For free, before the page store is told to drop this version: returns when that has taken, or
  // refused, whatever has come. What is still coming is not waited for.
  virtual Task<> await_written(Context context, FileId id) {
    static_cast<void>(context);
    static_cast<void>(id);
    co_return;  // of one that keeps nothing
  }
  // For free: gives up what of this version is held in memory and not under way; the bytes.
  virtual uint64_t forget(const FileId& id) {
    static_cast<void>(id);
    return 0;  // of one that keeps nothing
  }

  // Refuses new reads and waits until nothing is under way any more, cache writes included.
  // Requests that nobody waits for are cancelled.
  virtual Task<> stop() = 0;

  virtual FetcherStats stats() const = 0;
};

}  // namespace leat
