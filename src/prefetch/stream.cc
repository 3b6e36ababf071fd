// SPDX-License-Identifier: Apache-2.0
// Invariants: [start, next) of a stream is read without a hole. Its `ahead` runs begin after
// `next`, are sorted and do not touch; `planned` decreases only in on_rejected().
#include "prefetch/stream.h"

#include <algorithm>
#include <bit>

namespace leat {
namespace {

// With smaller units a request costs the store more than its bytes do.
constexpr uint64_t kUnitBytesMin = kMiB;
// Size of a first read at the start of a file that shows a sequential reader. The kernel's first
// readahead has this size; programs that read only a header request less.
constexpr uint64_t kFirstReadBytes = 128 * kKiB;
// Holes inside the reordering distance of one stream; more of them are not one stream.
constexpr size_t kRunsMax = 64;
// After so many reads that continue no other, further ones are expected to be alone, too.
constexpr unsigned kLoneReads = 4;
// A stream without a read during this many reads of its file does not return.
constexpr uint64_t kStaleReads = 16'384;
// If memory is short, a reader that never waits gets half its window after this many windows.
constexpr uint64_t kWindowsBeforeLess = 2;

}  // namespace

StreamTable::StreamTable(uint64_t file_size, StreamOptions options, WindowBudget* budget)
    : file_size_(file_size), options_(options), budget_(budget) {}

std::vector<ByteRange> StreamTable::observe(ByteRange read) {
  read = read.clamp(file_size_);
  if (read.empty()) return {};
  std::lock_guard lock(mutex_);
  if (++now_ % kStaleReads == 0) remove_stale();
  Stream* found = find(read);
  Stream* stream = found != nullptr ? found : &begin(read);
  if (found != nullptr) advance(*stream, read);
  stream = &merge_reached(*stream);
  stream->used_at = now_;
  grow(*stream);
  return plan(*stream);
}

bool StreamTable::is_alone(ByteRange read) {
  std::lock_guard lock(mutex_);
  return is_alone_locked(read);
}

bool StreamTable::is_at_random(ByteRange read) {
  std::lock_guard lock(mutex_);
  if (!is_alone_locked(read)) {
    lone_reads_ -= std::min(lone_reads_, 1u);
    return false;
  }
  lone_reads_ = std::min(lone_reads_ + 1, 2 * kLoneReads);
  return lone_reads_ > kLoneReads;
}

bool StreamTable::is_alone_locked(ByteRange read) const {
  return std::ranges::none_of(streams_, [&](const Stream& stream) {
    if (read.offset >= stream.start && read.offset <= stream.next) return true;
    // A read out of order, of a stream that is known to be in order.
    return stream.in_order >= 2 && read.end() + options_.reorder_bytes >= stream.start &&
           read.offset <= stream.frontier() + options_.reorder_bytes;
  });
}

void StreamTable::on_stall(ByteRange read) {
  std::lock_guard lock(mutex_);
  for (Stream& stream : streams_) {
    if (read.offset >= stream.start && read.offset < stream.frontier()) stream.stalled = true;
  }
}

void StreamTable::on_rejected(ByteRange unit) {
  std::lock_guard lock(mutex_);
  for (Stream& stream : streams_) {
    if (stream.start <= unit.offset && stream.planned >= unit.end()) stream.planned = unit.offset;
  }
}

// Returns the stream that `read` continues. Else the one that it repeats, was overtaken in or runs
// ahead of; else the one that it lies shortly before.
StreamTable::Stream* StreamTable::find(const ByteRange& read) {
  Stream* near = nullptr;
  Stream* before = nullptr;
  for (Stream& stream : streams_) {
    bool inside = read.offset >= stream.start && read.offset <= stream.next;
    if (inside && read.end() > stream.next) return &stream;
    bool late = inside && stream.next - read.offset <= options_.reorder_bytes;
    bool early = read.offset > stream.next && read.offset - stream.next <= options_.reorder_bytes;
    if (late || early) {
      if (near == nullptr || stream.next > near->next) near = &stream;
    } else if (read.offset < stream.start &&
               (read.end() >= stream.start ||
                stream.frontier() - read.offset <= options_.reorder_bytes)) {
      before = &stream;
    }
  }
  return near != nullptr ? near : before;
}

void StreamTable::remove_stale() {
  std::erase_if(streams_,
                [this](const Stream& stream) { return now_ - stream.used_at > kStaleReads; });
  streams_.shrink_to_fit();
}

StreamTable::Stream& StreamTable::begin(const ByteRange& read) {
  if (streams_.size() >= std::max(1u, options_.streams_max)) {
    auto oldest = std::ranges::min_element(streams_, {}, &Stream::used_at);
    *oldest = std::move(streams_.back());
    streams_.pop_back();
  }
  Stream stream;
  stream.start = read.offset;
  stream.next = read.end();
  stream.in_order = 1;
  if (read.offset == 0 && read.size >= kFirstReadBytes) {
    stream.window = options_.window_bytes_min / 4;
    stream.grown_at = stream.next;
  }
  streams_.push_back(std::move(stream));
  return streams_.back();
}

void StreamTable::advance(Stream& stream, const ByteRange& read) {
  if (read.offset < stream.start) {
    extend_backward(stream, read);
  } else if (read.offset > stream.next) {
    add_ahead(stream, Run{read, 1});
  } else if (read.end() > stream.next) {
    stream.next = read.end();
    ++stream.in_order;
  }
  absorb_ahead(stream);
  while (stream.frontier() - stream.next > options_.reorder_bytes ||
         stream.ahead.size() > kRunsMax) {
    skip_gap(stream);
  }
}

// The stream began before its first observed read.
void StreamTable::extend_backward(Stream& stream, const ByteRange& read) {
  if (read.end() < stream.start) {
    add_ahead(stream, Run{{stream.start, stream.next - stream.start}, stream.in_order});
    stream.next = read.end();
    stream.in_order = 1;
  }
  // A read that touches the start does not count: reading backwards never makes a stream.
  stream.next = std::max(stream.next, read.end());
  stream.start = read.offset;
}

void StreamTable::add_ahead(Stream& stream, Run run) {
  auto at = std::ranges::lower_bound(stream.ahead, run.range.offset, {},
                                     [](const Run& other) { return other.range.end(); });
  if (at != stream.ahead.end() && at->range.contains(run.range)) return;  // read again
  auto last = at;
  for (; last != stream.ahead.end() && last->range.offset <= run.range.end(); ++last) {
    uint64_t end = std::max(run.range.end(), last->range.end());
    run.range.offset = std::min(run.range.offset, last->range.offset);
    run.range.size = end - run.range.offset;
    run.reads += last->reads;
  }
  stream.ahead.insert(stream.ahead.erase(at, last), run);
}

void StreamTable::absorb_ahead(Stream& stream) {
  auto at = stream.ahead.begin();
  for (; at != stream.ahead.end() && at->range.offset <= stream.next; ++at) {
    stream.next = std::max(stream.next, at->range.end());
    stream.in_order += at->reads;
  }
  stream.ahead.erase(stream.ahead.begin(), at);
}

// The bytes before the first run will not be read any more (the kernel had them, or no reader needs
// them). The stream continues after the hole. If more than a quarter was skipped, its detection
// restarts, since a strided reader would waste most of the prefetched bytes.
void StreamTable::skip_gap(Stream& stream) {
  uint64_t span = stream.frontier() - stream.next;
  uint64_t covered = 0;
  for (const Run& run : stream.ahead) covered += run.range.size;
  const Run first = stream.ahead.front();
  if (covered * 4 < span * 3) {
    stream.window = 0;
    stream.in_order = 0;
  }
  stream.start = first.range.offset;
  stream.next = first.range.end();
  stream.in_order += first.reads;
  stream.ahead.erase(stream.ahead.begin());
}

// Merges the streams with a start that this one has reached, if they are not far ahead: they were
// short reads of bytes that are now read through. A stream that is far ahead belongs to another
// reader of the same bytes and stays.
StreamTable::Stream& StreamTable::merge_reached(Stream& stream) {
  const auto reached = [this](const Stream& merged, const Stream& other) {
    return other.start > merged.start && other.start <= merged.next &&
           other.next <= merged.next + options_.reorder_bytes;
  };
  if (std::ranges::none_of(streams_, [&](const Stream& o) { return reached(stream, o); })) {
    return stream;
  }
  Stream merged = std::move(stream);
  streams_.erase(streams_.begin() + (&stream - streams_.data()));
  for (size_t i = 0; i < streams_.size();) {
    const Stream& other = streams_[i];
    if (!reached(merged, other)) {
      ++i;
      continue;
    }
    merged.next = std::max(merged.next, other.next);
    merged.in_order += other.in_order;
    merged.planned = std::max(merged.planned, other.planned);
    merged.window = std::max(merged.window, other.window);
    merged.grown_at = std::max(merged.grown_at, other.grown_at);
    merged.stalled |= other.stalled;
    for (const Run& run : other.ahead) add_ahead(merged, run);
    absorb_ahead(merged);
    streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(i));
    i = 0;
  }
  streams_.push_back(std::move(merged));
  return streams_.back();
}

// A window grows when a reader waited. While memory is plenty, a window that was used up also
// grows, so that a lone reader does not wait once at each size.
void StreamTable::grow(Stream& stream) const {
  if (stream.in_order < 2) return;
  if (stream.window < options_.window_bytes_min) {
    stream.window = options_.window_bytes_min;
    stream.grown_at = stream.next;
    stream.stalled = false;
    return;
  }
  // So the waste when the reader stops is at most about what it has read. A reader that waits shows
  // that the window is too short, so it need not be used up first.
  const uint64_t used = stream.next > stream.grown_at ? stream.next - stream.grown_at : 0;
  // A larger window than the granted one has no use.
  if (stream.stalled && (stream.cut || stream.window >= options_.window_bytes_max)) {
    stream.grown_at = stream.next;
    stream.stalled = false;
    return;
  }
  if (!stream.stalled && budget_ != nullptr && !budget_->plenty(stream.window)) {
    const uint64_t less = stream.window / 2;
    const bool enough = used / stream.window >= kWindowsBeforeLess;
    if (enough && budget_->tight() && less >= options_.window_bytes_min) {
      stream.window = less;
      stream.grown_at = stream.next;
    }
    return;
  }
  const uint64_t needed = stream.stalled ? stream.window / 4 : stream.window;
  if (used < needed || stream.cut || stream.window >= options_.window_bytes_max) return;
  stream.window = std::min(stream.window * 2, options_.window_bytes_max);
  stream.grown_at = stream.next;
  stream.stalled = false;
}

uint64_t StreamTable::granted(Stream& stream) const {
  if (budget_ == nullptr) return stream.window;
  if (stream.window == 0) {
    stream.share = {};
    return 0;
  }
  const uint64_t bytes = budget_->request(stream.share, stream.window);
  stream.cut = bytes < stream.window;
  return bytes;
}

std::vector<ByteRange> StreamTable::plan(Stream& stream) const {
  std::vector<ByteRange> units;
  const uint64_t window = granted(stream);
  if (window == 0) return units;
  // The reader has requested these bytes already: they are fetched on demand, in whole blocks.
  stream.planned = std::max(stream.planned, align_up(stream.frontier(), kBlockBytes));
  uint64_t wanted = std::min(stream.next + window, file_size_);
  uint64_t to = wanted == file_size_ ? wanted : align_down(wanted, kBlockBytes);
  uint64_t unit = std::bit_floor(std::max(window / 4, kUnitBytesMin));
  unit = std::min({unit, std::bit_floor(window), options_.unit_bytes_max});
  unit = std::max(align_down(unit, kBlockBytes), kBlockBytes);
  while (stream.planned < to) {
    // Ends are multiples of the unit, so that readers with other starts request the same ranges.
    uint64_t end = std::min(align_down(stream.planned, unit) + unit, file_size_);
    if (end > to) {
      // A partial unit waits until the window covers it, but a new stream must not start empty.
      if (stream.planned > stream.next + window / 2) break;
      end = to;
    }
    units.push_back({stream.planned, end - stream.planned});
    stream.planned = end;
  }
  return units;
}

}  // namespace leat
