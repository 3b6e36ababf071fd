// SPDX-License-Identifier: Apache-2.0
// StreamTable: recognises sequential streams among the reads of one open file and says what to
// fetch ahead. Pure bookkeeping, no I/O. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "model/byte_range.h"
#include "prefetch/window_budget.h"

namespace leat {

struct StreamOptions {
  uint64_t window_bytes_min = 2 * kMiB;
  uint64_t window_bytes_max = 64 * kMiB;
  uint64_t unit_bytes_max = 8 * kMiB;  // one request's worth
  // The kernel's own read-ahead is asynchronous: reads of one stream arrive this much out of order.
  uint64_t reorder_bytes = 2 * kMiB;
  // Per open file; the least recently used one is forgotten. Enough for the workers of a loader on
  // one host, and 13 KiB for one that only reads at random.
  unsigned streams_max = 128;
};

class StreamTable {
 public:
  // `budget`: what all streams of the host share; without one each has what it wants.
  StreamTable(uint64_t file_size, StreamOptions options, WindowBudget* budget = nullptr);

  // Notes a read and returns the ranges to fetch ahead now, in order, in whole blocks (the last one
  // may end with the file), each at most unit_bytes_max, never one that was returned for this
  // stream before.
  std::vector<ByteRange> observe(ByteRange read);
  // Whether `read` goes on with nothing that was read before.
  bool is_alone(ByteRange read);
  // A range that observe() returned was not fetched for want of room: it is returned again, and
  // with it what would have followed.
  void refused(ByteRange unit);
  // The reader of `read` had to wait for the store: its stream's window may grow sooner.
  void reader_waited(ByteRange read);

 private:
  // Reads that touch each other, ahead of where their stream has got to.
  struct Run {
    ByteRange range;
    unsigned reads = 0;
  };
  struct Stream {
    uint64_t start = 0;      // everything in [start, next) was read
    uint64_t next = 0;       // where the stream is expected to go on
    std::vector<Run> ahead;  // arrived before what lies between; sorted, apart from each other
    uint64_t planned = 0;    // look-ahead was asked for up to here
    uint64_t window = 0;     // bytes wanted ahead of `next`; 0 until it is known to be a stream
    uint64_t grown_at = 0;   // `next` when the window got its size, or it was seen that more
                             // is not to be had
    bool waited = false;     // a reader waited since the window got its size
    bool cut = false;        // it got less than it wanted the last time
    WindowBudget::Share share;
    uint64_t used_at = 0;   // logical time of the last read
    unsigned in_order = 0;  // reads that lie one after the other

    uint64_t frontier() const { return ahead.empty() ? next : ahead.back().range.end(); }
  };

  Stream* find(const ByteRange& read);
  Stream& begin(const ByteRange& read);
  void advance(Stream& stream, const ByteRange& read);
  static void begin_earlier(Stream& stream, const ByteRange& read);
  static void add_ahead(Stream& stream, Run run);
  static void absorb_ahead(Stream& stream);
  static void leave_gap(Stream& stream);
  Stream& merge_reached(Stream& stream);
  void grow(Stream& stream) const;
  uint64_t granted(Stream& stream) const;
  std::vector<ByteRange> plan(Stream& stream) const;
  void forget_stale();

  const uint64_t file_size_;
  const StreamOptions options_;
  WindowBudget* const budget_;
  std::mutex mutex_;
  std::vector<Stream> streams_;
  uint64_t now_ = 0;
};

}  // namespace leat
