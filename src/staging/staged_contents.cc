// SPDX-License-Identifier: Apache-2.0
#include "staging/staged_contents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "runtime/disk.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr std::string_view kSuffix = ".content";
constexpr std::string_view kPartSuffix = ".part";

Error failed(const std::string& path, const char* what) {
  return error(status_from_errno(errno, fmt::format("cannot {} {}", what, path)));
}

}  // namespace

Result<std::unique_ptr<StagedContents>> StagedContents::open(std::string directory,
                                                             uint64_t bytes_max) {
  std::error_code bad;
  std::filesystem::create_directories(directory, bad);
  if (bad) {
    return error(status_from_errno(bad.value(), fmt::format("cannot create {}", directory)));
  }
  std::unique_ptr<StagedContents> contents(new StagedContents(std::move(directory), bytes_max));
  for (const auto& item : std::filesystem::directory_iterator(contents->directory_, bad)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with(kPartSuffix)) ::unlink(item.path().c_str());
    if (!name.ends_with(kSuffix)) continue;
    const auto id = Id128::from_hex(name.substr(0, name.size() - kSuffix.size()));
    if (!id) continue;
    const uint64_t size = item.file_size(bad);
    contents->contents_[*id] = {size, true, true};
    contents->bytes_ += size;
  }
  return contents;
}

std::string StagedContents::path_of(const Id128& content, bool is_complete) const {
  return fmt::format("{}/{}{}", directory_, content.to_hex(), is_complete ? kSuffix : kPartSuffix);
}

Result<> StagedContents::write(const Id128& content, uint64_t offset,
                               std::span<const std::byte> bytes, bool is_last) {
  {
    std::lock_guard lock(mutex_);
    const auto found = contents_.find(content);
    const uint64_t size = found == contents_.end() ? 0 : found->second.size;
    if (found != contents_.end() && found->second.is_complete) return {};
    if (offset > size) {
      return error(StatusCode::kUnavailable,
                   "this worker lacks the pieces of the content before this one");
    }
    const uint64_t more = offset + bytes.size() > size ? offset + bytes.size() - size : 0;
    if (bytes_ + more > bytes_max_) {
      return error(StatusCode::kNoSpace,
                   fmt::format("staged writes have {} bytes here, and may have {}; the store takes "
                               "them too slowly",
                               bytes_, bytes_max_));
    }
    bytes_ += more;
    contents_[content].size = size + more;
  }
  const std::string path = path_of(content, false);
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return failed(path, "create");
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(path, "write");
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (!is_last) return {};
  if (::fdatasync(file.fd()) != 0) return failed(path, "synchronise");
  LEAT_CHECK_OK(complete(content));
  std::lock_guard lock(mutex_);
  contents_[content].is_complete = true;
  return {};
}

Result<> StagedContents::complete(const Id128& content) const {
  const std::string path = path_of(content, false), final_path = path_of(content, true);
  if (::rename(path.c_str(), final_path.c_str()) != 0) return failed(path, "rename");
  const File directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.fd()) != 0) return failed(directory_, "synchronise");
  return {};
}

bool StagedContents::has(const Id128& content) const {
  std::lock_guard lock(mutex_);
  const auto found = contents_.find(content);
  return found != contents_.end() && found->second.is_complete;
}

bool StagedContents::is_from_before(const Id128& content) const {
  std::lock_guard lock(mutex_);
  const auto found = contents_.find(content);
  return found != contents_.end() && found->second.is_from_before;
}

Result<std::string> StagedContents::read(const Id128& content, ByteRange range) const {
  const std::string path = path_of(content, true);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failed(path, "open");
  std::string bytes(range.size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.fd(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(range.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path, "read");
    if (got == 0) {
      return error(StatusCode::kOutOfRange, fmt::format("{} ends before that range", path));
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

void StagedContents::remove(const Id128& content) {
  bool is_complete;
  {
    std::lock_guard lock(mutex_);
    const auto found = contents_.find(content);
    if (found == contents_.end()) return;
    is_complete = found->second.is_complete;
    bytes_ -= found->second.size;
    contents_.erase(found);
  }
  const std::string path = path_of(content, is_complete);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    log::warning("{}", failed(path, "remove").error().to_string());
  }
}

std::vector<Id128> StagedContents::all() const {
  std::lock_guard lock(mutex_);
  std::vector<Id128> ids;
  for (const auto& [id, content] : contents_) ids.push_back(id);
  return ids;
}

uint64_t StagedContents::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace leat
