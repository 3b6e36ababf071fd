// SPDX-License-Identifier: Apache-2.0
// MemoryPageStore: a PageStore in memory that keeps the contract, for tests. It can be full, block
// its writes, fail, and lose blocks between missing() and read() as a corrupt store does.
// Thread-safe.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/page_store.h"
#include "runtime/shared_promise.h"

namespace leat::testing {

class MemoryPageStore : public PageStore {
 public:
  explicit MemoryPageStore(uint64_t packed_bytes_max = 0) : packed_bytes_max_(packed_bytes_max) {}

  // Writes beyond this many cached bytes return kNoSpace.
  void set_capacity(uint64_t bytes) { capacity_ = bytes; }
  // Whether try_read succeeds.
  void set_hot(bool hot) { hot_ = hot; }
  // The next `count` reads find their blocks corrupt and drop them.
  void corrupt_reads(int count) { corrupt_reads_ = count; }
  // The next `count` reads fail, while missing() still reports the bytes as cached.
  void fail_reads(int count) { fail_reads_ = count; }
  void hold_writes() {
    std::lock_guard lock(mutex_);
    gate_ = SharedPromise<bool>::make();
  }
  void release_writes() {
    std::shared_ptr<SharedPromise<bool>> gate;
    {
      std::lock_guard lock(mutex_);
      gate.swap(gate_);
    }
    if (gate) gate->set(true);
  }
  uint64_t held() const { return held_; }
  uint64_t writes() const { return writes_; }
  uint64_t bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

  Task<> close() override { co_return; }

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override {
    std::lock_guard lock(mutex_);
    if (!hot_ || !missing_now(ref, range).empty()) return std::nullopt;
    return Bytes::copy_of(
        std::string_view(files_[ref.id].content).substr(range.offset, range.size));
  }

  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override {
    if (auto alive = context.check("a cache read"); !alive) co_return Error(alive.error());
    co_return read_now(*ref, range);
  }

  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override {
    std::lock_guard lock(mutex_);
    return missing_now(ref, range);
  }

  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override {
    std::shared_ptr<SharedPromise<bool>> gate;
    {
      std::lock_guard lock(mutex_);
      ++writes_;
      gate = gate_;
    }
    if (gate) {
      ++held_;
      Result<bool> released = co_await gate->wait(context, "a held write");
      --held_;
      if (!released) co_return Error(released.error());
    }
    co_return write_now(*ref, offset, data);
  }

  std::shared_ptr<BackingFile> backing(const FileRef&) override { return nullptr; }
  bool packed(const FileRef& ref) const override { return ref.size < packed_bytes_max_; }

  uint64_t cached_bytes(const FileRef& ref) override {
    std::lock_guard lock(mutex_);
    auto file = files_.find(ref.id);
    return file == files_.end() ? 0 : file->second.bytes;
  }

  uint64_t drop(const FileId& id) override {
    std::lock_guard lock(mutex_);
    auto file = files_.find(id);
    if (file == files_.end()) return 0;
    uint64_t dropped = file->second.bytes;
    bytes_ -= dropped;
    files_.erase(file);
    return dropped;
  }

  Task<Result<>> flush(Context) override { co_return Result<>(); }
  void set_pool_policy(PoolId, const PoolPolicy&) override {}
  std::vector<PoolStats> pools() const override { return {}; }
  PageStoreStats stats() const override {
    PageStoreStats stats{};
    stats.used_bytes = bytes();
    stats.capacity_bytes = capacity_;
    return stats;
  }

 private:
  struct File {
    std::string content;
    std::vector<bool> blocks;
    uint64_t bytes = 0;
  };

  static ByteRange block_range(const FileRef& ref, uint64_t block) {
    return ByteRange{block * kBlockBytes, kBlockBytes}.clamp(ref.size);
  }

  std::vector<ByteRange> missing_now(const FileRef& ref, ByteRange range) const {
    std::vector<ByteRange> missing;
    auto file = files_.find(ref.id);
    if (packed(ref)) {
      if (file == files_.end() && !range.empty()) missing.push_back({0, ref.size});
      return missing;
    }
    ByteRange wide = range.widen(kBlockBytes, ref.size);
    for (uint64_t block = wide.offset / kBlockBytes; block * kBlockBytes < wide.end(); ++block) {
      if (file != files_.end() && file->second.blocks[block]) continue;
      ByteRange part = block_range(ref, block);
      if (!missing.empty() && missing.back().end() == part.offset) {
        missing.back().size += part.size;
      } else {
        missing.push_back(part);
      }
    }
    return missing;
  }

  Result<Bytes> read_now(const FileRef& ref, ByteRange range) {
    std::lock_guard lock(mutex_);
    if (missing_now(ref, range).empty() && fail_reads_ > 0) {
      --fail_reads_;
      return error(StatusCode::kUnavailable, "the disk fails as the test ordered");
    }
    if (missing_now(ref, range).empty() && corrupt_reads_ > 0) {
      --corrupt_reads_;
      bytes_ -= files_[ref.id].bytes;
      files_.erase(ref.id);
    }
    if (!missing_now(ref, range).empty()) return error(StatusCode::kNotFound, "missing");
    return Bytes::copy_of(
        std::string_view(files_[ref.id].content).substr(range.offset, range.size));
  }

  Result<> write_now(const FileRef& ref, uint64_t offset, const Bytes& data) {
    std::lock_guard lock(mutex_);
    ByteRange range{offset, data.size()};
    if (range.widen(kBlockBytes, ref.size) != range || (packed(ref) && data.size() != ref.size)) {
      return error(StatusCode::kInvalidArgument, "a write that is not whole blocks");
    }
    if (bytes_ + data.size() > capacity_) return error(StatusCode::kNoSpace, "the cache is full");
    File& file = files_[ref.id];
    file.content.resize(ref.size);
    file.blocks.resize(align_up(ref.size, kBlockBytes) / kBlockBytes);
    std::string text = data.to_string();
    file.content.replace(offset, text.size(), text);
    for (uint64_t block = offset / kBlockBytes; block * kBlockBytes < range.end(); ++block) {
      if (file.blocks[block]) continue;
      file.blocks[block] = true;
      file.bytes += block_range(ref, block).size;
      bytes_ += block_range(ref, block).size;
    }
    return {};
  }

  const uint64_t packed_bytes_max_;
  std::atomic<uint64_t> capacity_ = UINT64_MAX;
  std::atomic<bool> hot_ = false;
  std::atomic<int> corrupt_reads_ = 0, fail_reads_ = 0;
  std::atomic<uint64_t> held_ = 0, writes_ = 0;
  mutable std::mutex mutex_;
  std::map<FileId, File> files_;
  uint64_t bytes_ = 0;
  std::shared_ptr<SharedPromise<bool>> gate_;
};

}  // namespace leat::testing
