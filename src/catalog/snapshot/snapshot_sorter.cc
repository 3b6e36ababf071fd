// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_sorter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "catalog/snapshot/snapshot_entry.h"
#include "catalog/snapshot/snapshot_order.h"
#include "catalog/snapshot/write_fully.h"

namespace leat {
namespace {

// Bytes read from a run at once; the buffer grows for a longer entry.
constexpr size_t kReadBytes = 256 << 10;

bool comes_before(const PathOfEntry& a, const PathOfEntry& b) {
  auto order = compare_paths(a.path, b.path);
  if (order != 0) return order < 0;
  return a.directory && !b.directory;
}

}  // namespace

class SnapshotSorter::Run {
 public:
  Run(File file, uint64_t bytes, size_t number)
      : number_(number), file_(std::move(file)), left_(bytes) {}

  // Returns false at the end.
  Result<bool> advance() {
    for (;;) {
      size_t at = at_;
      entry_.path.clear();
      if (at_ < buffer_.size() && read_entry(std::as_bytes(std::span(buffer_)), at, entry_)) {
        at_ = at;
        return true;
      }
      if (left_ == 0) return false;
      LEAT_CHECK_OK(fill());
    }
  }
  const SnapshotEntry& entry() const { return entry_; }
  PathOfEntry place() const { return {entry_.path, entry_.kind == FileKind::kDirectory}; }
  size_t number() const { return number_; }

 private:
  Result<> fill() {
    buffer_.erase(0, at_);
    at_ = 0;
    const size_t had = buffer_.size(), wanted = std::min<uint64_t>(kReadBytes, left_);
    buffer_.resize(had + wanted);
    const ssize_t got =
        ::pread(file_.fd(), buffer_.data() + had, wanted, static_cast<off_t>(offset_));
    if (got < 0) return error(status_from_errno(errno, "read names that are being sorted"));
    if (got == 0) return error(StatusCode::kCorrupt, "names that were being sorted are missing");
    buffer_.resize(had + static_cast<size_t>(got));
    offset_ += static_cast<uint64_t>(got);
    left_ -= static_cast<uint64_t>(got);
    return {};
  }

  const size_t number_;
  const File file_;
  uint64_t left_, offset_ = 0;
  std::string buffer_;
  size_t at_ = 0;
  SnapshotEntry entry_;
};

SnapshotSorter::SnapshotSorter(std::string folder, uint64_t memory_bytes)
    : folder_(std::move(folder)), memory_bytes_(memory_bytes) {}

SnapshotSorter::~SnapshotSorter() = default;

Result<> SnapshotSorter::add(const SnapshotEntry& entry) {
  offsets_.push_back(encoded_.size());
  append_entry(encoded_, entry, 0);
  if (encoded_.size() + offsets_.size() * sizeof(uint64_t) < memory_bytes_) return {};
  return spill();
}

std::vector<uint64_t> SnapshotSorter::sorted_offsets() const {
  std::vector<uint64_t> sorted = offsets_;
  std::span<const std::byte> bytes = std::as_bytes(std::span(encoded_));
  std::ranges::sort(sorted, [bytes](uint64_t a, uint64_t b) {
    const PathOfEntry left = path_of_entry(bytes, a), right = path_of_entry(bytes, b);
    if (comes_before(left, right)) return true;
    return !comes_before(right, left) && a < b;
  });
  return sorted;
}

Result<> SnapshotSorter::spill() {
  if (offsets_.empty()) return {};
  LEAT_TRY(File file, open_unnamed(folder_));
  std::string out;
  uint64_t written = 0;
  auto write_out = [&]() -> Result<> {
    LEAT_CHECK_OK(write_fully(file, out, written, "names that are being sorted"));
    written += out.size();
    out.clear();
    return {};
  };
  SnapshotEntry entry;
  for (uint64_t offset : sorted_offsets()) {
    size_t end = offset;
    entry.path.clear();
    read_entry(std::as_bytes(std::span(encoded_)), end, entry);
    out.append(encoded_, offset, end - offset);
    if (out.size() >= kReadBytes) LEAT_CHECK_OK(write_out());
  }
  LEAT_CHECK_OK(write_out());
  runs_.push_back(std::make_unique<Run>(std::move(file), encoded_.size(), runs_.size()));
  encoded_.clear();
  offsets_.clear();
  return {};
}

namespace {

// The run with the next entry is the greatest of the heap.
template <class RunPointer>
bool comes_after(RunPointer a, RunPointer b) {
  if (comes_before(a->place(), b->place())) return false;
  if (comes_before(b->place(), a->place())) return true;
  return a->number() > b->number();
}

}  // namespace

Result<> SnapshotSorter::finish() {
  LEAT_CHECK_OK(spill());
  for (const std::unique_ptr<Run>& run : runs_) {
    LEAT_TRY(bool more, run->advance());
    if (more) heap_.push_back(run.get());
  }
  std::ranges::make_heap(heap_, comes_after<Run*>);
  return {};
}

Result<std::optional<SnapshotEntry>> SnapshotSorter::next() {
  if (heap_.empty()) return std::optional<SnapshotEntry>();
  std::ranges::pop_heap(heap_, comes_after<Run*>);
  Run* run = heap_.back();
  std::optional<SnapshotEntry> entry = run->entry();
  LEAT_TRY(bool more, run->advance());
  if (more) {
    std::ranges::push_heap(heap_, comes_after<Run*>);
  } else {
    heap_.pop_back();
  }
  return entry;
}

}  // namespace leat
