// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "apps/client/tree.h"
#include "apps/command_table.h"
#include "apps/progress.h"
#include "runtime/disk.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

Result<> write_all(int fd, std::span<const std::byte> data, const std::string& path) {
  while (!data.empty()) {
    ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(status_from_errno(errno, "cannot write " + path));
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

// A name in a store may be anything; as a local file it may not lead elsewhere.
bool safe_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && !name.contains('/') &&
         !name.contains('\0');
}

class CpCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SRC", source_, "File or folder of the namespace, or a store's URL")->required();
    app.add_option("DST", destination_, "Local file or directory")->required();
    app.add_flag("-r,--recursive", recursive_, "Directories with all below them");
    app.add_flag("-f,--force", force_, "Overwrite what is there");
  }

  Attempt<> run() override {
    LEAT_TRY(Target target, open_target(source_));
    tree_ = target.tree.get();
    LEAT_TRY(StatView stat, tree_->stat(target.path));
    fs::path to = destination_;
    std::error_code ignored;
    if (stat.entry.kind == FileKind::kFile) {
      if (fs::is_directory(to, ignored)) to /= stat.entry.name;
      LEAT_CHECK_OK(copy_file(target.path, to));
    } else if (!recursive_) {
      return failure(StatusCode::kIsDirectory,
                     fmt::format("cannot copy {}: it is a directory; add -r", source_));
    } else {
      if (fs::is_directory(to, ignored) && !stat.entry.name.empty()) to /= stat.entry.name;
      LEAT_CHECK_OK(copy_directory(target.path, to));
    }
    if (json) print_json({{"files", done_.files_done}, {"bytes", done_.bytes_done}});
    return {};
  }

 private:
  Attempt<> copy_directory(const std::string& from, const fs::path& to);
  Attempt<> copy_file(const std::string& from, const fs::path& to);
  Attempt<> fill(int fd, const std::string& from, const std::string& temporary);

  std::string source_, destination_;
  bool recursive_ = false, force_ = false;
  Tree* tree_ = nullptr;
  ProgressState done_;
  Progress progress_;
};

Attempt<> CpCommand::copy_directory(const std::string& from, const fs::path& to) {
  std::error_code failed;
  fs::create_directories(to, failed);
  if (failed) {
    return std::unexpected(
        Failure(status_from_errno(failed.value(), "cannot make directory " + to.string())));
  }
  std::vector<EntryView> entries;
  LEAT_CHECK_OK(tree_->list(from, false, [&](const EntryView& entry) -> Attempt<> {
    entries.push_back(entry);
    return {};
  }));
  for (const EntryView& entry : entries) {
    if (!safe_name(entry.name)) {
      return failure(
          StatusCode::kInvalidArgument,
          fmt::format("cannot copy '{}' of {}: it is no name for a local file", entry.name, from));
    }
    std::string path = child_path(from, entry.name);
    bool file = entry.kind == FileKind::kFile;
    LEAT_CHECK_OK(file ? copy_file(path, to / entry.name) : copy_directory(path, to / entry.name));
  }
  return {};
}

// To a temporary name beside it and then in one step, so that a copy that was interrupted is never
// taken for a whole one.
Attempt<> CpCommand::copy_file(const std::string& from, const fs::path& to) {
  struct stat there{};
  if (!force_ && lstat(to.c_str(), &there) == 0) {
    return failure(StatusCode::kExists,
                   fmt::format("cannot copy {} to {}: that exists already; --force overwrites it",
                               from, to.string()));
  }
  std::string temporary = fmt::format("{}.leat-{}", to.string(), getpid());
  File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return std::unexpected(Failure(status_from_errno(errno, "cannot make " + temporary)));
  Attempt<> filled = fill(file.fd(), from, temporary);
  if (filled) {
    // Without --force a file that appeared meanwhile stays.
    unsigned flags = force_ ? 0 : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, to.c_str(), flags) == 0) {
      ++done_.files_done;
      return {};
    }
    filled = std::unexpected(Failure(status_from_errno(errno, "cannot make " + to.string())));
  }
  unlink(temporary.c_str());
  return filled;
}

Attempt<> CpCommand::fill(int fd, const std::string& from, const std::string& temporary) {
  TakeBytes take = [&](std::span<const std::byte> data) -> Result<> {
    LEAT_CHECK_OK(write_all(fd, data, temporary));
    done_.bytes_done += data.size();
    progress_.show(done_);
    return {};
  };
  return tree_->read(from, 0, UINT64_MAX, take);
}

}  // namespace

std::unique_ptr<Command> make_cp_command() {
  return std::make_unique<CpCommand>();
}

}  // namespace leat
