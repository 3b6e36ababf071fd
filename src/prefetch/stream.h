// SPDX-License-Identifier: Apache-2.0
// StreamTable: detects sequential streams among the reads of one open file and returns the ranges
// to prefetch. Pure bookkeeping, no I/O. Thread-safe.
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
  uint64_t unit_bytes_max = 8 * kMiB;  // one request
  // The kernel's readahead is asynchronous: reads of one stream arrive this much out of order.
  uint64_t reorder_bytes = 2 * kMiB;
  // Per open file; the least recently used stream is dropped. Enough for the workers of a loader on
  // one host, and 13 KiB for a file that is only read at random.
  unsigned streams_max = 128;
};

class StreamTable {
 public:
  // `budget`: shared by all streams of the host; without one each stream has the window that it
  // wants.
  StreamTable(uint64_t file_size, StreamOptions options, WindowBudget* budget = nullptr);

  // Records a read and returns the ranges to prefetch now, in order. They are whole blocks (the
  // last one may end with the file), each at most unit_bytes_max. No range is returned twice for a
  // stream.
  std::vector<ByteRange> observe(ByteRange read);
  // Whether `read` continues no earlier read.
  bool is_alone(ByteRange read);
  // Whether `read`, the next one to be observed, is one of several that continue no earlier read.
  bool is_at_random(ByteRange read);
  // A range from observe() was not fetched for lack of room: it is returned again, with the ranges
  // after it.
  void on_rejected(ByteRange unit);
  // The reader of `read` had to wait for the store: its stream's window may grow sooner.
  void on_stall(ByteRange read);

 private:
  // Reads that touch each other, ahead of their stream's position.
  struct Run {
    ByteRange range;
    unsigned reads = 0;
  };
  struct Stream {
    uint64_t start = 0;      // Everything in [start, next) was read.
    uint64_t next = 0;       // Expected offset of the next read.
    std::vector<Run> ahead;  // Arrived before the bytes in between; sorted, not touching.
    uint64_t planned = 0;    // Prefetched up to here.
    uint64_t window = 0;     // Bytes wanted ahead of `next`; 0 until a stream is detected.
    uint64_t grown_at = 0;   // Position when the window got its size, or its maximum.
    bool stalled = false;    // A reader waited for the store since then.
    bool cut = false;        // It got less than it wanted the last time.
    WindowBudget::Share share;
    uint64_t used_at = 0;   // logical time of the last read
    unsigned in_order = 0;  // consecutive reads in order

    uint64_t frontier() const { return ahead.empty() ? next : ahead.back().range.end(); }
  };

  bool is_alone_locked(ByteRange read) const;
  Stream* find(const ByteRange& read);
  Stream& begin(const ByteRange& read);
  void advance(Stream& stream, const ByteRange& read);
  static void extend_backward(Stream& stream, const ByteRange& read);
  static void add_ahead(Stream& stream, Run run);
  static void absorb_ahead(Stream& stream);
  static void skip_gap(Stream& stream);
  Stream& merge_reached(Stream& stream);
  void grow(Stream& stream) const;
  uint64_t granted(Stream& stream) const;
  std::vector<ByteRange> plan(Stream& stream) const;
  void remove_stale();

  const uint64_t file_size_;
  const StreamOptions options_;
  WindowBudget* const budget_;
  std::mutex mutex_;
  std::vector<Stream> streams_;
  uint64_t now_ = 0;
  unsigned lone_reads_ = 0;  // grows with each read that is alone, shrinks with each other one
};

}  // namespace leat
