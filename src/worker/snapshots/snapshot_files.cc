// SPDX-License-Identifier: Apache-2.0
#include "worker/snapshots/snapshot_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/crc32c.h"
#include "base/read_file.h"
#include "telemetry/log.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;

Result<File> open_file(const std::string& path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return error(status_from_errno(errno, "open " + path));
  return file;
}

// Reads up to `size` bytes from `offset`; fewer at the end of the file.
Result<size_t> read_at(int fd, char* into, size_t size, uint64_t offset) {
  size_t got = 0;
  while (got < size) {
    const ssize_t more = ::pread(fd, into + got, size - got, static_cast<off_t>(offset + got));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return error(status_from_errno(errno, "read a snapshot"));
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  return got;
}

// Replaces the file atomically.
Result<> write_record(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  std::ofstream out(partial, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out && ::rename(partial.c_str(), path.c_str()) == 0) return {};
  const int failed = errno;
  ::unlink(partial.c_str());
  return error(status_from_errno(failed, "write " + path));
}

}  // namespace

Result<FileSum> sum_of(const File& file, const std::string& name) {
  FileSum sum;
  std::string buffer(kReadBytes, '\0');
  while (true) {
    Result<size_t> got = read_at(file.fd(), buffer.data(), buffer.size(), sum.bytes);
    if (!got) return error(got.error().with_context(name));
    if (*got == 0) return sum;
    sum.crc = crc32c(std::as_bytes(std::span(buffer.data(), *got)), sum.crc);
    sum.bytes += *got;
  }
}

SnapshotFiles::SnapshotFiles(std::string directory) : directory_(std::move(directory)) {
  std::error_code failed;
  for (fs::directory_iterator at(directory_, failed), end; !failed && at != end;
       at.increment(failed)) {
    const fs::path& path = at->path();
    if (path.extension() == ".json") {
      Result<std::string> text = read_file(path);
      Result<SharedSnapshot> record =
          text ? decode_snapshot(*text) : Result<SharedSnapshot>(Error(text.error()));
      Result<> taken = record ? register_file(*record) : Result<>(Error(record.error()));
      if (!taken) log::warning("{} is skipped: {}", path.string(), taken.error().to_string());
    } else if (path.extension() != ".snapshot") {
      // Remains of an unfinished build or copy.
      std::error_code ignored;
      fs::remove(path, ignored);
    }
  }
}

std::string SnapshotFiles::file_of(const Id128& id) const {
  return fmt::format("{}/{}.snapshot", directory_, id.to_hex());
}

std::string SnapshotFiles::record_of(const Id128& id) const {
  return fmt::format("{}/{}.json", directory_, id.to_hex());
}

Result<> SnapshotFiles::register_file(const SharedSnapshot& record) {
  LEAT_TRY(File file, open_file(file_of(record.id)));
  struct stat info;
  if (::fstat(file.fd(), &info) != 0 || static_cast<uint64_t>(info.st_size) != record.file_bytes) {
    return error(StatusCode::kCorrupt,
                 fmt::format("the snapshot {} is not as large as it was", record.name));
  }
  std::lock_guard lock(mutex_);
  stored_[record.id] = {record, std::make_shared<const File>(std::move(file)), Clock::now()};
  return {};
}

Result<std::string> SnapshotFiles::temp_path(const std::string& name) const {
  std::error_code failed;
  fs::create_directories(directory_, failed);
  if (failed) return error(status_from_errno(failed.value(), "make " + directory_));
  return fmt::format("{}/{}.partial", directory_, name);
}

Result<> SnapshotFiles::add(const SharedSnapshot& record, const std::string& path) {
  // The record comes last: a file without a record does not count.
  if (::rename(path.c_str(), file_of(record.id).c_str()) != 0) {
    return error(status_from_errno(errno, "rename to " + file_of(record.id)));
  }
  LEAT_CHECK_OK(write_record(record_of(record.id), encode_snapshot(record)));
  return register_file(record);
}

Result<> SnapshotFiles::verify(const Id128& id) {
  const std::optional<StoredSnapshot> held = find(id);
  if (!held) return error(StatusCode::kNotFound, "this snapshot is not here");
  LEAT_TRY(const FileSum sum, sum_of(*held->file, file_of(id)));
  if (sum.bytes == held->record.file_bytes && sum.crc == held->record.crc) return {};
  remove(id);
  return error(StatusCode::kCorrupt,
               fmt::format("the file of the snapshot {} did not match its checksum and was removed",
                           held->record.name));
}

void SnapshotFiles::remove(const Id128& id) {
  {
    std::lock_guard lock(mutex_);
    stored_.erase(id);
  }
  ::unlink(record_of(id).c_str());
  ::unlink(file_of(id).c_str());
}

std::optional<SnapshotFiles::StoredSnapshot> SnapshotFiles::find(const Id128& id) const {
  std::lock_guard lock(mutex_);
  const auto found = stored_.find(id);
  if (found == stored_.end()) return std::nullopt;
  return found->second;
}

std::vector<SnapshotFiles::StoredSnapshot> SnapshotFiles::all() const {
  std::lock_guard lock(mutex_);
  std::vector<StoredSnapshot> all;
  for (const auto& [id, held] : stored_) all.push_back(held);
  return all;
}

Result<std::string> SnapshotFiles::read(const StoredSnapshot& held, ByteRange range) {
  if (range.empty() || range.size > kSnapshotPieceBytes || range.offset > held.record.file_bytes ||
      range.size > held.record.file_bytes - range.offset) {
    return error(StatusCode::kOutOfRange,
                 fmt::format("{} bytes from {} on are not within {} of a snapshot", range.size,
                             range.offset, held.record.file_bytes));
  }
  std::string bytes(range.size, '\0');
  LEAT_TRY(const size_t got, read_at(held.file->fd(), bytes.data(), bytes.size(), range.offset));
  if (got == bytes.size()) return bytes;
  return error(StatusCode::kCorrupt, "the file of a snapshot is shorter than it was");
}

}  // namespace leat
