// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/data/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/id128.h"

namespace leat {
namespace {

// Names to remove when a signal ends the process. Files beyond this number lack that protection.
std::array<std::atomic<const char*>, 64> cleanup_names{};
static_assert(std::atomic<const char*>::is_always_lock_free);

void register_cleanup(const char* name) {
  for (auto& slot : cleanup_names) {
    const char* none = nullptr;
    if (slot.compare_exchange_strong(none, name)) return;
  }
}

void unregister_cleanup(const char* name) {
  for (auto& slot : cleanup_names) {
    const char* expected = name;
    if (slot.compare_exchange_strong(expected, nullptr)) return;
  }
}

void clean_up_on_signal(int signal) {
  for (auto& slot : cleanup_names) {
    if (const char* name = slot.exchange(nullptr)) ::unlink(name);
  }
  ::raise(signal);  // the default action, which SA_RESETHAND has restored
}

void install_cleanup_handlers() {
  struct sigaction action{};
  action.sa_handler = &clean_up_on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now{};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
      ::sigaction(signal, &action, nullptr);
    }
  }
}

std::string directory_of(const std::string& path) {
  std::string directory = std::filesystem::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

// Short regardless of the file's name, which may have the maximum length already.
std::string temporary_beside(const std::string& path) {
  return fmt::format("{}/.leat-{}", directory_of(path), Id128::random().to_hex().substr(0, 16));
}

Error exists(const std::string& path) {
  return error(StatusCode::kExists, fmt::format("{} exists already", path));
}

Error failed_to_make(const std::string& path) {
  if (errno == EEXIST) return exists(path);
  return error(status_from_errno(errno, "cannot make " + path));
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, bool unnamed) {
  AtomicFile made(path);
  if (unnamed && made.open_unnamed()) return made;
  LEAT_CHECK_OK(made.open_named());
  return made;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::move(other.file_)),
      mtime_(other.mtime_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_) return;
  ::unlink(temporary_->c_str());
  unregister_cleanup(temporary_->c_str());
}

void AtomicFile::create_temporary_name() {
  install_cleanup_handlers();
  // A pointer that stays valid when this object is moved.
  temporary_ = std::make_unique<const std::string>(temporary_beside(path_));
  register_cleanup(temporary_->c_str());
}

void AtomicFile::drop_temporary_name() {
  unregister_cleanup(temporary_->c_str());
  temporary_.reset();
}

Result<> AtomicFile::open_unnamed() {
  file_ = File(::open(directory_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (!file_) return error(status_from_errno(errno, "cannot make a file without a name"));
  return {};
}

Result<> AtomicFile::open_named() {
  create_temporary_name();
  file_ = File(::open(temporary_->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file_) return {};
  Result<> failed = error(status_from_errno(errno, "cannot make a file for " + path_));
  drop_temporary_name();
  return failed;
}

Result<> AtomicFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t n = ::write(file_.fd(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(status_from_errno(errno, "cannot write " + path_));
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

// Network file systems and quotas may report write errors only here.
Result<> AtomicFile::finish_writing() {
  if (::fdatasync(file_.fd()) != 0) {
    return error(status_from_errno(errno, "cannot write " + path_));
  }
  const int copy = ::fcntl(file_.fd(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || ::close(copy) != 0) {
    return error(status_from_errno(errno, "cannot write " + path_));
  }
  return {};
}

void AtomicFile::set_time(WallTime mtime) {
  mtime_ = mtime;
}

Result<> AtomicFile::commit(bool replace) {
  if (mtime_) {
    const auto whole = std::chrono::floor<std::chrono::seconds>(*mtime_);
    const timespec time{.tv_sec = whole.time_since_epoch().count(),
                        .tv_nsec = (*mtime_ - whole).count()};
    const timespec both[] = {time, time};
    ::futimens(file_.fd(), both);
  }
  LEAT_CHECK_OK(finish_writing());
  if (!temporary_) {
    const std::string self = fmt::format("/proc/self/fd/{}", file_.fd());
    auto link_to = [&](const std::string& name) {
      return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (link_to(path_)) return {};
    if (!replace || errno != EEXIST) return failed_to_make(path_);
    create_temporary_name();
    if (!link_to(*temporary_)) return failed_to_make(path_);
  }
  if (!replace) {
    LEAT_CHECK_OK(rename_without_replacing(*temporary_, path_));
  } else if (::rename(temporary_->c_str(), path_.c_str()) != 0) {
    return failed_to_make(path_);
  }
  drop_temporary_name();
  return {};
}

Result<> rename_without_replacing(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return failed_to_make(to);
  // For NFS and others: a link never replaces anything.
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return {};
  }
  if (errno == EEXIST) return exists(to);
  // Neither works (FAT): a file that appears between the next two lines is lost.
  struct stat there{};
  if (::lstat(to.c_str(), &there) == 0) return exists(to);
  if (::rename(from.c_str(), to.c_str()) != 0) return failed_to_make(to);
  return {};
}

}  // namespace leat
