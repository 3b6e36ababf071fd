// SPDX-License-Identifier: Apache-2.0
#include "cache/superblock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/crc32c.h"
#include "base/records.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEATCSB1";
constexpr size_t kSuperblockBytes = 128;
constexpr size_t kCrcOffset = kSuperblockBytes - sizeof(uint32_t);
constexpr const char* kName = "/superblock";
constexpr const char* kNewName = "/superblock.new";

Error damaged(const std::string& directory, std::string_view what) {
  return error(StatusCode::kCorrupt,
               fmt::format("the cache directory {} cannot be opened: its superblock {}; remove the "
                           "directory to start with an empty cache",
                           directory, what));
}

Error too_new(const std::string& directory, const std::string& what) {
  return error(StatusCode::kUnsupported,
               fmt::format("the cache directory {} was written by a newer leat ({}); use that "
                           "version, give another --cache-dir, or remove the directory to start "
                           "with an empty cache",
                           directory, what));
}

}  // namespace

std::string Superblock::encode() const {
  RecordWriter writer;
  writer.put_text(kMagic);
  writer.put<uint32_t>(kFormatVersion);
  writer.put<uint32_t>(clean ? 1 : 0);
  writer.put(compatible);
  writer.put(incompatible);
  writer.put(uuid);
  writer.put(worker);
  writer.pad_to(kCrcOffset);
  writer.put(crc32c(writer.span()));
  return writer.take();
}

Result<Superblock> Superblock::decode(std::span<const std::byte> bytes,
                                      const std::string& directory) {
  RecordReader reader(bytes);
  if (reader.get_text(kMagic.size()) != kMagic) {
    return damaged(directory, "does not begin with the mark of a leat cache");
  }
  if (bytes.size() < kSuperblockBytes) return damaged(directory, "is cut short");
  uint32_t crc;
  std::memcpy(&crc, bytes.data() + kCrcOffset, sizeof crc);
  if (crc != crc32c(bytes.first(kCrcOffset))) {
    return damaged(directory, "does not match its checksum");
  }
  auto version = reader.get<uint32_t>();
  if (version != kFormatVersion) {
    return too_new(directory,
                   fmt::format("format {}, this build knows {}", version, kFormatVersion));
  }
  Superblock block;
  block.clean = reader.get<uint32_t>() == 1;
  block.compatible = reader.get<uint64_t>();
  block.incompatible = reader.get<uint64_t>();
  block.uuid = reader.get_id();
  block.worker = reader.get_id();
  if (uint64_t unknown = block.incompatible & ~kIncompatibleKnown; unknown != 0) {
    return too_new(directory, fmt::format("incompatible features {:#x}", unknown));
  }
  return block;
}

Result<std::optional<Superblock>> read_superblock(Disk& disk, const std::string& directory) {
  Result<Buffer> content = disk.read_file(directory + kName, kSuperblockBytes);
  if (content) {
    LEAT_TRY(Superblock block, Superblock::decode(content->span(), directory));
    return block;
  }
  if (content.error().code() != StatusCode::kNotFound) return Error(content.error());
  LEAT_TRY(auto items, disk.list_directory(directory));
  for (const DirectoryItem& item : items) {
    const bool ours = item.name == "lock" || item.name == "superblock.new" || item.name == "probe";
    if ((ours && !item.is_directory) || item.name == "lost+found") continue;
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} is not a leat cache and not empty (it holds {}); give --cache-dir "
                             "a directory of its own",
                             directory, item.name));
  }
  return std::nullopt;
}

Task<Result<>> write_superblock(std::shared_ptr<Disk> disk, std::string directory,
                                Superblock superblock) {
  const std::string now = directory + kName, next = directory + kNewName;
  LEAT_CO_TRY(File file, co_await disk->threads().run([&disk, &next] {
    return disk->open(next, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }));
  Bytes content = Bytes::copy_of(superblock.encode());
  LEAT_CO_CHECK_OK(co_await disk->write(Context::background(), file.fd(), content, 0));
  LEAT_CO_CHECK_OK(co_await disk->sync(Context::background(), file.fd()));
  co_return co_await disk->threads().run([&]() -> Result<> {
    LEAT_CHECK_OK(disk->rename(next, now));
    return disk->sync_directory(directory);
  });
}

Result<> DirectoryLock::acquire(Disk& disk, const std::string& directory) {
  for (size_t slash = directory.find('/', 1); slash != std::string::npos;
       slash = directory.find('/', slash + 1)) {
    // A parent that cannot be made shows in the last make_directory.
    auto parent = disk.make_directory(directory.substr(0, slash));
    static_cast<void>(parent);
  }
  LEAT_CHECK_OK(disk.make_directory(directory));
  LEAT_TRY(File file, disk.open(directory + "/lock", O_RDWR | O_CREAT, 0600));
  const int fd = file.fd();  // stays open as long as this
  LEAT_TRY(const bool ours, lock(std::move(file), directory));
  if (!ours) {
    std::array<char, 32> holder{};
    ssize_t got = ::pread(fd, holder.data(), holder.size() - 1, 0);
    return error(
        StatusCode::kBusy,
        fmt::format("the cache directory {} is in use by process {}; stop that one or give "
                    "another --cache-dir",
                    directory, got > 0 ? holder.data() : "(unknown)"));
  }
  // Only for the message above: flock decides which process holds the lock.
  std::string pid = std::to_string(::getpid());
  LEAT_CHECK_OK(disk.truncate(fd, 0));
  if (::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return error(status_from_errno(errno, "write " + directory + "/lock"));
  }
  return {};
}

Result<bool> DirectoryLock::lock(File file, const std::string& directory) {
  std::lock_guard lock(mutex_);
  file_ = std::move(file);
  if (released_) return error(StatusCode::kUnavailable, directory + " was given up meanwhile");
  if (::flock(file_.fd(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return error(status_from_errno(errno, "lock " + directory));
}

void DirectoryLock::release() {
  std::lock_guard lock(mutex_);
  released_ = true;
  if (file_) ::flock(file_.fd(), LOCK_UN);
}

}  // namespace leat
