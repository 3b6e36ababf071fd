// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "apps/cli/data/atomic_file.h"
#include "apps/cli/data/copy_target.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// A store's name may be any text; as a local file it must not lead to another directory.
bool safe_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && !name.contains('/') &&
         !name.contains('\0');
}

WallTime time_of(const struct stat& found) {
  return WallTime(std::chrono::seconds(found.st_mtim.tv_sec) +
                  std::chrono::nanoseconds(found.st_mtim.tv_nsec));
}

class LocalTarget : public CopyTarget {
 public:
  std::string name_of(const std::string& path) const override { return path; }
  std::string child(const std::string& parent, const std::string& name) const override {
    return fs::path(parent) / name;
  }

  CommandResult<std::optional<EntryView>> find(const std::string& path) override {
    struct stat found{};
    if (lstat(path.c_str(), &found) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      return std::unexpected(Failure(status_from_errno(errno, "cannot stat " + path)));
    }
    // Follow a link whenever its target exists.
    if (S_ISLNK(found.st_mode)) stat(path.c_str(), &found);
    EntryView entry{.name = fs::path(path).filename()};
    entry.kind = S_ISDIR(found.st_mode) ? FileKind::kDirectory : FileKind::kFile;
    entry.size = static_cast<uint64_t>(found.st_size);
    entry.mtime = time_of(found);
    return entry;
  }

  bool has_directories() const override { return true; }
  CommandResult<> make_directory(const std::string& path) override {
    std::error_code failed;
    fs::create_directories(path, failed);
    if (!failed) return {};
    return std::unexpected(
        Failure(status_from_errno(failed.value(), "cannot make directory " + path)));
  }

  CommandResult<> write(const Incoming& incoming, const std::string& path, bool replace) override {
    if (const std::string name = fs::path(path).filename(); !safe_name(name)) {
      return failure(StatusCode::kInvalidArgument,
                     fmt::format("'{}' is no name for a local file", name));
    }
    LEAT_TRY(AtomicFile file, AtomicFile::create(path));
    LEAT_CHECK_OK(incoming.read([&](std::span<const std::byte> data) { return file.write(data); }));
    if (incoming.entry.mtime) file.set_time(*incoming.entry.mtime);
    LEAT_CHECK_OK(file.commit(replace));
    return {};
  }

  // Compares times with those of the source, which the file system stores as far as it can.
  bool same(const EntryView& file, const EntryView& there) const override {
    if (file.size != there.size || !file.mtime || !there.mtime) return false;
    return std::chrono::abs(*file.mtime - *there.mtime) < std::chrono::milliseconds(1);
  }
};

}  // namespace

std::unique_ptr<CopyTarget> make_local_target() {
  return std::make_unique<LocalTarget>();
}

}  // namespace leat
