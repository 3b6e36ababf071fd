// SPDX-License-Identifier: Apache-2.0
#include "cache/spread/watched_disk.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/id128.h"
#include "base/units.h"
#include "cache/capacity.h"
#include "runtime/traced.h"

namespace leat {
namespace {

Error refused() {
  return error(StatusCode::kUnavailable, "the cache directory was given up as it was");
}

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

void WatchedDisk::ended(CallTimes::Place place, const Status* failure) {
  const Clock::time_point now = Clock::now();
  calls_.ended(place, now);
  if (failure != nullptr && !fenced_off_) health_->call_failed(now, *failure);
}

template <class Call>
std::invoke_result_t<Call> WatchedDisk::watch(const Call& call) {
  if (fenced_off_) return refused();
  const CallTimes::Place place = calls_.began(Clock::now());
  std::invoke_result_t<Call> outcome = call();
  ended(place, outcome ? nullptr : &outcome.error());
  return outcome;
}

Task<Result<size_t>> WatchedDisk::read(Context context, int fd, std::span<std::byte> into,
                                       uint64_t offset) {
  if (fenced_off_) co_return refused();
  const CallTimes::Place place = calls_.began(Clock::now());
  Traced span(context, "read from the disk");
  span.note([&] { return fmt::format("{} at {}", format_bytes(into.size()), offset); });
  Result<size_t> got = co_await disk_->read(context, fd, into, offset);
  ended(place, got ? nullptr : &got.error());
  co_return got;
}

std::optional<size_t> WatchedDisk::try_read(int fd, std::span<std::byte> into, uint64_t offset) {
  return disk_->try_read(fd, into, offset);
}

bool WatchedDisk::is_cold(int fd, uint64_t offset, uint64_t size) {
  if (is_slow()) return false;
  return disk_->is_cold(fd, offset, size);
}

// Lack of descriptors looks like EIO and is not the disk's fault.
Result<File> WatchedDisk::open(const std::string& path, int flags, mode_t mode) {
  if (fenced_off_) return refused();
  const CallTimes::Place place = calls_.began(Clock::now());
  Result<File> file = disk_->open(path, flags, mode);
  const bool read_only = !file && file.error().code() == StatusCode::kReadOnly;
  ended(place, read_only ? &file.error() : nullptr);
  return file;
}

Result<uint64_t> WatchedDisk::read_ahead(int fd, uint64_t offset, uint64_t size) {
  return watch([&] { return disk_->read_ahead(fd, offset, size); });
}

Result<> WatchedDisk::write_now(int fd, const Bytes& data, uint64_t offset) {
  return watch([&] { return disk_->write_now(fd, data, offset); });
}
Result<size_t> WatchedDisk::read_now(int fd, std::span<std::byte> into, uint64_t offset) {
  return watch([&] { return disk_->read_now(fd, into, offset); });
}
Result<> WatchedDisk::sync_now(int fd) {
  return watch([&] { return disk_->sync_now(fd); });
}
Result<> WatchedDisk::unlink(const std::string& path) {
  return watch([&] { return disk_->unlink(path); });
}
Result<> WatchedDisk::rename(const std::string& from, const std::string& to) {
  return watch([&] { return disk_->rename(from, to); });
}
Result<> WatchedDisk::truncate(int fd, uint64_t size) {
  return watch([&] { return disk_->truncate(fd, size); });
}
Result<> WatchedDisk::make_directory(const std::string& path) {
  return watch([&] { return disk_->make_directory(path); });
}
Result<> WatchedDisk::sync_directory(const std::string& path) {
  return watch([&] { return disk_->sync_directory(path); });
}
Result<std::vector<DirectoryItem>> WatchedDisk::list_directory(const std::string& path) {
  return watch([&] { return disk_->list_directory(path); });
}
Result<Buffer> WatchedDisk::read_file(const std::string& path, size_t bytes_max) {
  return watch([&] { return disk_->read_file(path, bytes_max); });
}
Result<DiskUsage> WatchedDisk::usage(const std::string& path) {
  return watch([&] { return disk_->usage(path); });
}

Result<> probe_directory(Disk& disk, const std::string& directory) {
  const std::string path = directory + "/probe";
  Result<> outcome = write_and_read(disk, path);
  Result<> removed = disk.unlink(path);
  const bool gone = removed || removed.error().code() == StatusCode::kNotFound;
  return !outcome || gone ? outcome : removed;
}

}  // namespace leat
