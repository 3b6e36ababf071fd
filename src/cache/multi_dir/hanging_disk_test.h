// SPDX-License-Identifier: Apache-2.0
// A disk with calls that hang until they are released.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cache/store_fixture_test.h"

namespace leat {

// Hang: decides which calls hang, for all disks that share it. Thread-safe.
class Hang {
 public:
  enum class Call { kRead, kWrite, kSync, kMetadata };
  // `path` is empty for calls on descriptors.
  using Which = std::function<bool(Call call, const std::string& path)>;

  static bool everything(Call, const std::string&) { return true; }

  // From now on, the first `calls_max` matching calls hang.
  void begin(Which which, int calls_max = 1'000'000) {
    std::lock_guard lock(mutex_);
    which_ = std::move(which);
    left_ = calls_max;
  }
  void release() {
    std::lock_guard lock(mutex_);
    which_ = nullptr;
    ++releases_;
    changed_.notify_all();
  }
  // Returns when that many calls hang.
  void wait_for(int calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return hanging_ >= calls; });
  }
  int hanging() const {
    std::lock_guard lock(mutex_);
    return hanging_;
  }
  bool would_hang(Call call, const std::string& path = "") const {
    std::lock_guard lock(mutex_);
    return left_ > 0 && which_ && which_(call, path);
  }
  void pass(Call call, const std::string& path = "") {
    std::unique_lock lock(mutex_);
    if (left_ == 0 || !which_ || !which_(call, path)) return;
    --left_;
    const int now = releases_;
    ++hanging_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return releases_ != now; });
    --hanging_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Which which_;
  int left_ = 0, hanging_ = 0, releases_ = 0;
};

class HangingDisk : public Disk {
 public:
  HangingDisk(std::shared_ptr<Disk> below, std::shared_ptr<Hang> hang)
      : below_(std::move(below)), hang_(std::move(hang)) {}

  BlockingPool& threads() override { return below_->threads(); }
  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override {
    LEAT_CO_CHECK_OK(co_await wait(Hang::Call::kRead));
    co_return co_await below_->read(context, fd, into, offset);
  }
  Result<> sync_now(int fd) override {
    hang_->pass(Hang::Call::kSync);
    return below_->sync_now(fd);
  }
  Result<> write_now(int fd, const Bytes& data, uint64_t offset) override {
    hang_->pass(Hang::Call::kWrite);
    return below_->write_now(fd, data, offset);
  }
  Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) override {
    hang_->pass(Hang::Call::kRead);
    return below_->read_now(fd, into, offset);
  }
  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override {
    if (hang_->would_hang(Hang::Call::kRead)) return std::nullopt;
    return below_->try_read(fd, into, offset);
  }
  Result<File> open(const std::string& path, int flags, mode_t mode) override {
    hang_->pass(Hang::Call::kMetadata, path);
    return below_->open(path, flags, mode);
  }
  Result<> unlink(const std::string& path) override {
    hang_->pass(Hang::Call::kMetadata, path);
    return below_->unlink(path);
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    hang_->pass(Hang::Call::kMetadata, to);
    return below_->rename(from, to);
  }
  Result<> truncate(int fd, uint64_t size) override {
    hang_->pass(Hang::Call::kMetadata);
    return below_->truncate(fd, size);
  }
  Result<> make_directory(const std::string& path) override {
    hang_->pass(Hang::Call::kMetadata, path);
    return below_->make_directory(path);
  }
  Result<> sync_directory(const std::string& path) override {
    hang_->pass(Hang::Call::kSync, path);
    return below_->sync_directory(path);
  }
  Result<std::vector<DirectoryItem>> list_directory(const std::string& path) override {
    hang_->pass(Hang::Call::kMetadata, path);
    return below_->list_directory(path);
  }
  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    hang_->pass(Hang::Call::kRead, path);
    return below_->read_file(path, bytes_max);
  }
  Result<DiskUsage> usage(const std::string& path) override {
    hang_->pass(Hang::Call::kMetadata, path);
    return below_->usage(path);
  }

 private:
  // Blocks a disk thread, and no thread of the executor.
  Task<Result<>> wait(Hang::Call call) {
    if (!hang_->would_hang(call)) co_return Result<>();
    co_return co_await threads().run([hang = hang_, call]() -> Result<> {
      hang->pass(call);
      return {};
    });
  }

  const std::shared_ptr<Disk> below_;
  const std::shared_ptr<Hang> hang_;
};

}  // namespace leat
