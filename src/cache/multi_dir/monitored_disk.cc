// SPDX-License-Identifier: Apache-2.0
#include "cache/multi_dir/monitored_disk.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/id128.h"
#include "base/units.h"
#include "cache/capacity.h"
#include "runtime/scoped_span.h"

namespace leat {
namespace {

Error fenced_off_error() {
  return error(StatusCode::kUnavailable, "the cache directory was given up, its disk hung");
}

Result<> write_and_read(Disk& disk, const std::string& path) {
  Buffer page(kPageBytes);
  const Id128 pattern = Id128::random();
  for (size_t i = 0; i < page.size(); ++i)
    page.data()[i] = std::byte{pattern.bytes[i % pattern.bytes.size()]};
  const Bytes written(std::move(page));
  LEAT_TRY(File file, disk.open(path, O_RDWR | O_CREAT | O_TRUNC | O_DSYNC, 0600));
  Result<> wrote = disk.write_now(file.fd(), written, 0);
  if (!wrote && wrote.error().code() == StatusCode::kNoSpace) return {};
  LEAT_CHECK_OK(wrote);
  Buffer again(kPageBytes);
  LEAT_TRY(size_t got, disk.read_now(file.fd(), again.span(), 0));
  if (got != kPageBytes || !std::ranges::equal(again.span(), written.slices()[0].span())) {
    return error(StatusCode::kInternal,
                 fmt::format("{} does not have the bytes that were just written to it", path));
  }
  return {};
}

}  // namespace

void MonitoredDisk::note_end(InflightCalls::Slot slot, const Status* failure) {
  const Clock::time_point now = Clock::now();
  calls_.end(slot, now);
  if (failure != nullptr && !fenced_off_) health_->call_failed(now, *failure);
}

template <class Call>
std::invoke_result_t<Call> MonitoredDisk::monitored(const Call& call) {
  if (fenced_off_) return fenced_off_error();
  const InflightCalls::Slot slot = calls_.begin(Clock::now());
  std::invoke_result_t<Call> outcome = call();
  note_end(slot, outcome ? nullptr : &outcome.error());
  return outcome;
}

Task<Result<size_t>> MonitoredDisk::read(Context context, int fd, std::span<std::byte> into,
                                         uint64_t offset) {
  if (fenced_off_) co_return fenced_off_error();
  const InflightCalls::Slot slot = calls_.begin(Clock::now());
  ScopedSpan span(context, "cache.disk.read");
  span.note([&] { return fmt::format("{} at {}", format_bytes(into.size()), offset); });
  Result<size_t> got = co_await disk_->read(context, fd, into, offset);
  note_end(slot, got ? nullptr : &got.error());
  co_return got;
}

std::optional<size_t> MonitoredDisk::try_read(int fd, std::span<std::byte> into, uint64_t offset) {
  return disk_->try_read(fd, into, offset);
}

bool MonitoredDisk::is_cold(int fd, uint64_t offset, uint64_t size) {
  if (is_slow()) return false;
  return disk_->is_cold(fd, offset, size);
}

// Lack of descriptors looks like EIO and is not the disk's fault.
Result<File> MonitoredDisk::open(const std::string& path, int flags, mode_t mode) {
  if (fenced_off_) return fenced_off_error();
  const InflightCalls::Slot slot = calls_.begin(Clock::now());
  Result<File> file = disk_->open(path, flags, mode);
  const bool read_only = !file && file.error().code() == StatusCode::kReadOnly;
  note_end(slot, read_only ? &file.error() : nullptr);
  return file;
}

Result<uint64_t> MonitoredDisk::read_ahead(int fd, uint64_t offset, uint64_t size) {
  return monitored([&] { return disk_->read_ahead(fd, offset, size); });
}

Result<> MonitoredDisk::write_now(int fd, const Bytes& data, uint64_t offset) {
  return monitored([&] { return disk_->write_now(fd, data, offset); });
}
Result<size_t> MonitoredDisk::read_now(int fd, std::span<std::byte> into, uint64_t offset) {
  return monitored([&] { return disk_->read_now(fd, into, offset); });
}
Result<> MonitoredDisk::sync_now(int fd) {
  return monitored([&] { return disk_->sync_now(fd); });
}
Result<> MonitoredDisk::unlink(const std::string& path) {
  return monitored([&] { return disk_->unlink(path); });
}
Result<> MonitoredDisk::rename(const std::string& from, const std::string& to) {
  return monitored([&] { return disk_->rename(from, to); });
}
Result<> MonitoredDisk::truncate(int fd, uint64_t size) {
  return monitored([&] { return disk_->truncate(fd, size); });
}
Result<> MonitoredDisk::make_directory(const std::string& path) {
  return monitored([&] { return disk_->make_directory(path); });
}
Result<> MonitoredDisk::sync_directory(const std::string& path) {
  return monitored([&] { return disk_->sync_directory(path); });
}
Result<std::vector<DirectoryItem>> MonitoredDisk::list_directory(const std::string& path) {
  return monitored([&] { return disk_->list_directory(path); });
}
Result<Buffer> MonitoredDisk::read_file(const std::string& path, size_t bytes_max) {
  return monitored([&] { return disk_->read_file(path, bytes_max); });
}
Result<DiskUsage> MonitoredDisk::usage(const std::string& path) {
  return monitored([&] { return disk_->usage(path); });
}

Result<> probe_directory(Disk& disk, const std::string& directory) {
  const std::string path = directory + "/probe";
  Result<> outcome = write_and_read(disk, path);
  Result<> removed = disk.unlink(path);
  const bool gone = removed || removed.error().code() == StatusCode::kNotFound;
  return !outcome || gone ? outcome : removed;
}

}  // namespace leat
