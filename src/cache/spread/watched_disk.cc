// SPDX-License-Identifier: Apache-2.0
#include "cache/spread/watched_disk.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/id128.h"
#include "cache/capacity.h"

namespace leat {
namespace {

class WatchedDisk : public Disk {
  template <class T>
  Result<T> ended(Result<T> outcome) {
    health_->call_ended(Clock::now(), outcome ? nullptr : &outcome.error());
    return outcome;
  }
  template <class Call>
  std::invoke_result_t<Call> watch(const Call& call) {
    health_->call_began(Clock::now());
    return ended(call());
  }

 public:
  WatchedDisk(std::shared_ptr<Disk> disk, std::shared_ptr<DirectoryHealth> health)
      : disk_(std::move(disk)), health_(std::move(health)) {}

  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override {
    health_->call_began(Clock::now());
    co_return ended(co_await disk_->read(std::move(context), fd, into, offset));
  }
  Task<Result<>> write(Context context, int fd, Bytes data, uint64_t offset) override {
    health_->call_began(Clock::now());
    co_return ended(co_await disk_->write(std::move(context), fd, std::move(data), offset));
  }
  Result<> write_now(int fd, const Bytes& data, uint64_t offset) override {
    return watch([&] { return disk_->write_now(fd, data, offset); });
  }
  Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) override {
    return watch([&] { return disk_->read_now(fd, into, offset); });
  }
  Task<Result<>> sync(Context context, int fd) override {
    health_->call_began(Clock::now());
    co_return ended(co_await disk_->sync(std::move(context), fd));
  }
  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override {
    return disk_->try_read(fd, into, offset);
  }
  // A want of descriptors, which looks like EIO, is not the disk's fault.
  Result<File> open(const std::string& path, int flags, mode_t mode) override {
    health_->call_began(Clock::now());
    Result<File> file = disk_->open(path, flags, mode);
    const bool read_only = !file && file.error().code() == StatusCode::kReadOnly;
    health_->call_ended(Clock::now(), read_only ? &file.error() : nullptr);
    return file;
  }
  Result<> unlink(const std::string& path) override {
    return watch([&] { return disk_->unlink(path); });
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    return watch([&] { return disk_->rename(from, to); });
  }
  Result<> truncate(int fd, uint64_t size) override {
    return watch([&] { return disk_->truncate(fd, size); });
  }
  Result<> make_directory(const std::string& path) override {
    return watch([&] { return disk_->make_directory(path); });
  }
  Result<> sync_directory(const std::string& path) override {
    return watch([&] { return disk_->sync_directory(path); });
  }
  Result<std::vector<DirectoryItem>> list_directory(const std::string& path) override {
    return watch([&] { return disk_->list_directory(path); });
  }
  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    return watch([&] { return disk_->read_file(path, bytes_max); });
  }
  Result<DiskUsage> usage(const std::string& path) override {
    return watch([&] { return disk_->usage(path); });
  }

 private:
  const std::shared_ptr<Disk> disk_;
  const std::shared_ptr<DirectoryHealth> health_;
};

Result<> write_and_read(Disk& disk, const std::string& path) {
  Buffer page(kPageBytes);
  const Id128 word = Id128::random();
  for (size_t i = 0; i < page.size(); ++i)
    page.data()[i] = std::byte{word.bytes[i % word.bytes.size()]};
  const Bytes written(std::move(page));
  LEAT_TRY(File file, disk.open(path, O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600));
  Result<> wrote = disk.write_now(file.fd(), written, 0);
  if (!wrote && wrote.error().code() == StatusCode::kNoSpace) return {};
  LEAT_CHECK_OK(wrote);
  Buffer again(kPageBytes);
  LEAT_TRY(size_t got, disk.read_now(file.fd(), again.span(), 0));
  if (got != kPageBytes || !std::ranges::equal(again.span(), written.slices()[0].span())) {
    return error(StatusCode::kInternal,
                 fmt::format("{} does not hold what was just written to it", path));
  }
  return {};
}

}  // namespace

std::shared_ptr<Disk> make_watched_disk(std::shared_ptr<Disk> disk,
                                        std::shared_ptr<DirectoryHealth> health) {
  return std::make_shared<WatchedDisk>(std::move(disk), std::move(health));
}

Result<> probe_directory(Disk& disk, const std::string& directory) {
  const std::string path = directory + "/probe";
  Result<> outcome = write_and_read(disk, path);
  Result<> removed = disk.unlink(path);
  const bool gone = removed || removed.error().code() == StatusCode::kNotFound;
  return !outcome || gone ? outcome : removed;
}

}  // namespace leat
