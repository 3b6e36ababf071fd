// SPDX-License-Identifier: Apache-2.0
// MemoryPageStore: a page store in memory with every guarantee of PageStore but durability, for
// tests of modules above the cache. Complete files are also in an unlinked temporary file, for
// backing(). Thread-safe.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "base/check.h"
#include "cache/page_store.h"

namespace leat::testing {

class MemoryPageStore : public PageStore {
 public:
  static constexpr uint64_t kPackedBytesMax = kMiB;

  Task<> close() override { co_return; }

  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override {
    std::lock_guard lock(mutex_);
    Stored& stored = files_[ref.id];
    if (!missing_of(stored, ref, range).empty()) return std::nullopt;
    return Bytes::copy_of(std::string_view(stored.data).substr(range.offset, range.size));
  }
  Task<Result<Bytes>> read(Context, FileRefPtr ref, ByteRange range) override {
    if (auto bytes = try_read(*ref, range)) co_return *bytes;
    co_return error(StatusCode::kNotFound, "not in memory");
  }
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override {
    std::lock_guard lock(mutex_);
    return missing_of(files_[ref.id], ref, range);
  }
  Task<Result<>> write(Context, FileRefPtr ref, uint64_t offset, Bytes data) override {
    std::lock_guard lock(mutex_);
    Stored& stored = files_[ref->id];
    stored.data.resize(ref->size);
    stored.data.replace(offset, data.size(), data.to_string());
    for (uint64_t at = offset; at < offset + data.size(); at += kBlockBytes) {
      stored.blocks[at / kBlockBytes] = std::min(kBlockBytes, ref->size - at);
    }
    written_.notify_all();
    co_return Result<>();
  }
  // Waits until the whole file is there; returns whether it is.
  bool wait_for(const FileRef& ref) {
    std::unique_lock lock(mutex_);
    return written_.wait_for(lock, std::chrono::seconds(20), [&] {
      return missing_of(files_[ref.id], ref, {0, ref.size}).empty();
    });
  }
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override {
    std::lock_guard lock(mutex_);
    Stored& stored = files_[ref.id];
    if (packed(ref) || !missing_of(stored, ref, {0, ref.size}).empty()) return nullptr;
    return std::make_shared<TemporaryFile>(stored.data);
  }
  bool packed(const FileRef& ref) const override { return ref.size < kPackedBytesMax; }
  uint64_t cached_bytes(const FileRef& ref) override {
    std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const auto& [index, bytes] : files_[ref.id].blocks) sum += bytes;
    return sum;
  }
  uint64_t drop(const FileId& id) override {
    std::lock_guard lock(mutex_);
    const uint64_t bytes = files_[id].data.size();
    files_.erase(id);
    return bytes;
  }
  Task<Result<>> flush(Context) override { co_return Result<>(); }
  void set_pool_policy(PoolId, const PoolPolicy&) override {}
  std::vector<PoolStats> pools() const override { return {}; }
  PageStoreStats stats() const override {
    PageStoreStats stats{};
    stats.capacity_bytes = kGiB;
    return stats;
  }

 private:
  struct Stored {
    std::string data;
    std::map<uint64_t, uint64_t> blocks;  // present blocks by number, and their bytes
  };

  class TemporaryFile : public BackingFile {
   public:
    explicit TemporaryFile(const std::string& data) : size_(data.size()) {
      char path[] = "/tmp/leat_backing_XXXXXX";
      const int writable = ::mkstemp(path);
      LEAT_CHECK(writable >= 0);
      LEAT_CHECK(::write(writable, data.data(), data.size()) == static_cast<ssize_t>(data.size()));
      fd_ = ::open(path, O_RDONLY | O_CLOEXEC);
      ::close(writable);
      ::unlink(path);
    }
    ~TemporaryFile() override { ::close(fd_); }
    int fd() const override { return fd_; }
    uint64_t size() const override { return size_; }

   private:
    uint64_t size_;
    int fd_;
  };

  static std::vector<ByteRange> missing_of(const Stored& stored, const FileRef& ref,
                                           ByteRange range) {
    std::vector<ByteRange> gaps;
    const ByteRange wide = range.widen(kBlockBytes, ref.size);
    for (uint64_t at = wide.offset; at < wide.end(); at += kBlockBytes) {
      if (stored.blocks.contains(at / kBlockBytes)) continue;
      const uint64_t bytes = std::min(kBlockBytes, wide.end() - at);
      if (!gaps.empty() && gaps.back().end() == at) {
        gaps.back().size += bytes;
      } else {
        gaps.push_back({at, bytes});
      }
    }
    return gaps;
  }

  mutable std::mutex mutex_;
  std::condition_variable written_;
  std::map<FileId, Stored> files_;
};

}  // namespace leat::testing
