// SPDX-License-Identifier: Apache-2.0
// Fetcher: the PageSource chain of one host: bytes under way, local cache, source. Single flight: any
// byte of a file version is asked of the store once, however many readers want it at the same time.
// Bytes reach readers before they reach the disk. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/page_store.h"
#include "fetch/page_source.h"
#include "runtime/executor.h"
#include "source/source_table.h"

namespace leat {

struct FetcherOptions {
  // Memory of ranges under way and of those just fetched, which are kept a while because their
  // reader is about to come. Demand reads may exceed it by one range each; look-ahead may not.
  uint64_t memory_bytes_max = 256 * kMiB;
  // Requests to one store under way at once; look-ahead leaves a quarter of them to demand reads.
  unsigned requests_max = 32;
};

struct FetcherStats {
  uint64_t memory_bytes;       // in buffers now
  uint64_t requests_in_flight;
};

class Fetcher : public PageSource {
 public:
  // `store` may be null (no cache); the others must outlive it.
  static std::unique_ptr<Fetcher> create(FetcherOptions options, PageStore* store,
                                         SourceTable& sources, Executor& executor);

  // Look-ahead: fetches what of `range` is missing, in one request if it is one piece, in the
  // background. Returns at once; does nothing when there is no memory or request left for it.
  virtual void prefetch(FileRefPtr ref, ByteRange range) = 0;

  // For load: returns when `range` is in the cache. The bytes that had to be fetched.
  virtual Task<Result<uint64_t>> ensure(Context context, FileRefPtr ref, ByteRange range) = 0;

  // Waits until nothing is under way any more; new reads are refused.
  virtual Task<> stop() = 0;

  virtual FetcherStats stats() const = 0;
};

}  // namespace leat
