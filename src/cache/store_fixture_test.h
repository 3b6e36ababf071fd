// SPDX-License-Identifier: Apache-2.0
// Fixtures of the page store tests: a temporary directory, objects with content computed from their
// name, a disk that fails on demand.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "cache/page_store.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {

// Waits for a condition; fails after a minute.
inline void until(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    ASSERT_LT(Clock::now(), end) << "the condition was not met";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

class TempDirectory {
 public:
  TempDirectory() {
    path_ = testing::TempDir() + "/leat_cache_" + Id128::random().to_hex();
    std::filesystem::create_directories(path_);
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline FileRefPtr object(const std::string& key, uint64_t size, const std::string& etag = "v1") {
  static const StoreId store = make_store_id("s3", "localhost", "", "bucket");
  return std::make_shared<const FileRef>(FileRef::make(store, key, Version::etag(etag), size));
}

// Every eight bytes are a hash of the object and their position.
inline Bytes content(const FileRef& ref, ByteRange range) {
  Buffer buffer(range.size);
  std::byte* out = buffer.data();
  const uint64_t seed = ref.id.hash64(), end = range.offset + range.size;
  for (uint64_t at = range.offset; at < end;) {
    uint64_t word = (seed ^ (at / 8)) * 0x9e3779b97f4a7c15ull;
    word ^= word >> 32;
    word >>= at % 8 * 8;
    const uint64_t size = std::min(8 - at % 8, end - at);
    std::memcpy(out, &word, size);
    out += size;
    at += size;
  }
  return Bytes(std::move(buffer));
}
inline Bytes content(const FileRefPtr& ref) {
  return content(*ref, {0, ref->size});
}

inline bool same(const Bytes& a, const Bytes& b) {
  return a.to_string() == b.to_string();
}

// FaultyDisk: counts the calls and lets `fault` decide whether each fails. Syncs do not reach the
// real disk: the tests kill processes, not machines, and would wait for other users of the disk.
class FaultyDisk : public Disk {
 public:
  explicit FaultyDisk(std::shared_ptr<Disk> below) : below_(std::move(below)) {}

  enum class Call { kRead, kWrite, kSync, kMetadata };
  // Returns 0, or the errno with which this call fails. May be changed while calls are in flight.
  class Fault {
   public:
    using Function = std::function<int(Call, uint64_t number)>;
    void operator=(Function function) {
      auto next = std::make_shared<const Function>(std::move(function));
      std::lock_guard lock(mutex_);
      function_.swap(next);
    }
    int operator()(Call call, uint64_t number) const {
      std::shared_ptr<const Function> now;
      {
        std::lock_guard lock(mutex_);
        now = function_;
      }
      return now != nullptr && *now ? (*now)(call, number) : 0;
    }

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Function> function_;
  };
  Fault fault;
  // Receives the bytes of a blocking read before the store does.
  std::function<void(std::span<std::byte>)> after_read;
  std::atomic<uint64_t> calls = 0;

  BlockingPool& threads() override { return below_->threads(); }
  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override {
    if (int failed = next_fault(Call::kRead)) co_return Error(status_from_errno(failed, "read"));
    Result<size_t> got = co_await below_->read(context, fd, into, offset);
    if (after_read) after_read(into);
    co_return got;
  }
  Result<> write_now(int fd, const Bytes& data, uint64_t offset) override {
    if (int failed = next_fault(Call::kWrite)) {
      // Half of it reaches the disk, as is possible.
      Bytes half = data.sub(0, data.size() / 2);
      Result<> torn = below_->write_now(fd, half, offset);
      static_cast<void>(torn);
      return error(status_from_errno(failed, "write"));
    }
    return below_->write_now(fd, data, offset);
  }
  Result<> sync_now(int) override {
    if (int failed = next_fault(Call::kSync)) return error(status_from_errno(failed, "fdatasync"));
    return {};
  }
  Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) override {
    if (int failed = next_fault(Call::kRead)) return error(status_from_errno(failed, "read"));
    return below_->read_now(fd, into, offset);
  }
  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override {
    if (next_fault(Call::kRead) != 0) return std::nullopt;
    return below_->try_read(fd, into, offset);
  }
  bool is_cold(int fd, uint64_t offset, uint64_t size) override {
    return below_->is_cold(fd, offset, size);
  }
  Result<uint64_t> read_ahead(int fd, uint64_t offset, uint64_t size) override {
    if (int failed = next_fault(Call::kRead)) return error(status_from_errno(failed, "read ahead"));
    return below_->read_ahead(fd, offset, size);
  }
  Result<File> open(const std::string& path, int flags, mode_t mode) override {
    return metadata([&] { return below_->open(path, flags, mode); });
  }
  Result<> unlink(const std::string& path) override {
    return metadata([&] { return below_->unlink(path); });
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    return metadata([&] { return below_->rename(from, to); });
  }
  Result<> truncate(int fd, uint64_t size) override {
    return metadata([&] { return below_->truncate(fd, size); });
  }
  Result<> make_directory(const std::string& path) override {
    return metadata([&] { return below_->make_directory(path); });
  }

  Result<> sync_directory(const std::string&) override {
    return metadata([] { return Result<>(); });
  }
  Result<std::vector<DirectoryItem>> list_directory(const std::string& path) override {
    return metadata([&] { return below_->list_directory(path); });
  }
  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    return metadata([&] { return below_->read_file(path, bytes_max); });
  }
  Result<DiskUsage> usage(const std::string& path) override {
    return metadata([&] { return below_->usage(path); });
  }

 private:
  int next_fault(Call call) {
    uint64_t number = ++calls;
    return fault(call, number);
  }
  template <class F>
  std::invoke_result_t<F> metadata(F call) {
    if (int failed = next_fault(Call::kMetadata))
      return error(status_from_errno(failed, "metadata"));
    return call();
  }

  const std::shared_ptr<Disk> below_;
};

// TestStore: one open page store on a directory.
class TestStore {
 public:
  explicit TestStore(PageStoreOptions options, std::shared_ptr<Disk> disk = nullptr)
      : executor_({.threads = 2}),
        disk_(disk ? disk : std::make_shared<FaultyDisk>(make_disk(executor_))) {
    opened_ = executor_.block_on(PageStore::open(Context::background(), options, executor_, disk_));
    if (opened_) store_ = std::move(*opened_);
  }
  // Closed cleanly, since tasks that wait in the background when their executor ends are never
  // freed.
  ~TestStore() {
    if (ok()) close();
  }

  // Small enough that both kinds of objects are cheap to make.
  static PageStoreOptions options(const std::string& directory) {
    return {.directory = directory,
            .capacity_bytes = 64 * kMiB,
            .free_bytes_min = 1,
            .packed_bytes_max = 128 * kKiB,
            .segment_bytes = 1 * kMiB};
  }

  bool ok() const { return store_ != nullptr; }
  const Status& failure() const { return opened_.error(); }
  PageStore* operator->() { return store_.get(); }
  Executor& executor() { return executor_; }

  Result<> write(const FileRefPtr& ref, uint64_t offset, Bytes data) {
    return executor_.block_on(store_->write(Context::background(), ref, offset, std::move(data)));
  }
  Result<> write_range(const FileRefPtr& ref, ByteRange range) {
    return write(ref, range.offset, content(*ref, range));
  }
  Result<> write_whole(const FileRefPtr& ref) { return write(ref, 0, content(ref)); }
  Result<Bytes> read(const FileRefPtr& ref, ByteRange range) {
    return executor_.block_on(store_->read(Context::background(), ref, range));
  }
  Result<Bytes> read_whole(const FileRefPtr& ref) { return read(ref, {0, ref->size}); }
  // Returns the code of a failed read; nothing if it succeeded with the right bytes.
  std::optional<StatusCode> read_fails(const FileRefPtr& ref, ByteRange range) {
    Result<Bytes> bytes = read(ref, range);
    if (!bytes) return bytes.error().code();
    EXPECT_TRUE(same(*bytes, content(*ref, range)))
        << "wrong bytes of " << ref->key << " at " << range.offset << " + " << range.size;
    return std::nullopt;
  }
  bool holds(const FileRefPtr& ref) { return !read_fails(ref, {0, ref->size}); }
  Result<> flush() { return executor_.block_on(store_->flush(Context::background())); }
  void close() {
    executor_.block_on(store_->close());
    store_ = nullptr;
  }
  // Destroys the store without close().
  void kill() { store_ = nullptr; }

 private:
  Executor executor_;
  std::shared_ptr<Disk> disk_;
  Result<std::unique_ptr<PageStore>> opened_ = nullptr;
  std::unique_ptr<PageStore> store_;
};

// Returns a copy of the directory as a crash now could leave it. The store continues meanwhile, so
// files may disappear during the copy.
inline std::unique_ptr<TempDirectory> crash_copy(const std::string& directory) {
  namespace fs = std::filesystem;
  auto copy = std::make_unique<TempDirectory>();
  for (const auto& item : fs::recursive_directory_iterator(directory)) {
    fs::path to = copy->path() / fs::relative(item.path(), directory);
    std::error_code failed;
    if (item.is_directory(failed)) {
      fs::create_directories(to);
    } else {
      fs::copy_file(item.path(), to, failed);
      if (failed && failed != std::errc::no_such_file_or_directory)
        throw fs::filesystem_error("", failed);
    }
  }
  return copy;
}

inline uint64_t disk_bytes(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat info;
    if (::lstat(item.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

inline void flip_bit(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  char byte;
  ASSERT_TRUE(file.get(byte));
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
}

// Path of an object's own file: its ".data" or ".meta".
inline std::string file_of(const std::string& directory, const FileRefPtr& ref,
                           const char* suffix) {
  return directory + "/files/" + ref->id.to_hex().substr(0, 2) + "/" + ref->id.to_hex() + suffix;
}

inline std::vector<std::string> files_ending(const std::string& directory,
                                             const std::string& suffix) {
  std::vector<std::string> found;
  for (const auto& item : std::filesystem::recursive_directory_iterator(directory)) {
    if (item.path().string().ends_with(suffix)) found.push_back(item.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace leat
