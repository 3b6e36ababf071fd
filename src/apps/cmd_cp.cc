// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "apps/client/tree.h"
#include "apps/command_table.h"
#include "apps/new_file.h"
#include "apps/progress.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

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
    LEAT_TRY(StatView stat, tree_->stat(target.path, recursive_));
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
    Json told = {{"files", done_.files_done}, {"bytes", done_.bytes_done}, {"left_out", left_out_}};
    if (left_out_ != 0) {
      Failure some(
          Status(StatusCode::kUnsupported,
                 fmt::format("{} names were left out, everything else was copied", left_out_)));
      some.document = told;
      return std::unexpected(some);
    }
    if (json) print_json(told);
    return {};
  }

 private:
  Attempt<> copy_directory(const std::string& from, const fs::path& to);
  Attempt<> copy_file(const std::string& from, const fs::path& to);
  Attempt<std::vector<EntryView>> names_in(const std::string& directory);
  void leave_out(uint64_t count, const std::string& why);

  std::string source_, destination_;
  bool recursive_ = false, force_ = false;
  Tree* tree_ = nullptr;
  ProgressState done_;
  uint64_t left_out_ = 0;
  Progress progress_;
};

Attempt<> CpCommand::copy_directory(const std::string& from, const fs::path& to) {
  std::error_code failed;
  fs::create_directories(to, failed);
  if (failed) {
    return std::unexpected(
        Failure(status_from_errno(failed.value(), "cannot make directory " + to.string())));
  }
  LEAT_TRY(std::vector<EntryView> entries, names_in(from));
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

// As the namespace has it: where an object and a prefix have one name, the prefix.
Attempt<std::vector<EntryView>> CpCommand::names_in(const std::string& directory) {
  std::vector<EntryView> entries;
  std::set<std::string> directories;
  EachEntry each = [&](const EntryView& entry) -> Attempt<> {
    if (entry.kind == FileKind::kDirectory) directories.insert(entry.name);
    entries.push_back(entry);
    return {};
  };
  LEAT_TRY(uint64_t left_out, tree_->list(directory, false, each));
  if (left_out != 0) {
    leave_out(left_out, fmt::format("{} names in {} cannot be files", left_out, directory));
  }
  std::erase_if(entries, [&](const EntryView& entry) {
    bool hidden = entry.kind == FileKind::kFile && directories.contains(entry.name);
    if (hidden) {
      leave_out(1, fmt::format("the object {} is left out: a prefix has the same name",
                               child_path(directory, entry.name)));
    }
    return hidden;
  });
  return entries;
}

void CpCommand::leave_out(uint64_t count, const std::string& why) {
  left_out_ += count;
  note(why);
}

Attempt<> CpCommand::copy_file(const std::string& from, const fs::path& to) {
  auto exists = [&] {
    return failure(StatusCode::kExists,
                   fmt::format("cannot copy {} to {}: that exists already; --force overwrites it",
                               from, to.string()));
  };
  struct stat there{};
  if (!force_ && lstat(to.c_str(), &there) == 0) return exists();
  LEAT_TRY(NewFile file, NewFile::create(to));
  TakeBytes take = [&](std::span<const std::byte> data) -> Result<> {
    LEAT_CHECK_OK(file.write(data));
    done_.bytes_done += data.size();
    progress_.show(done_);
    return {};
  };
  LEAT_CHECK_OK(tree_->read(from, 0, UINT64_MAX, take));
  // Without --force a file that appeared meanwhile stays.
  Result<> published = file.publish(force_);
  if (!published && published.error().code() == StatusCode::kExists) return exists();
  if (!published) return std::unexpected(Failure(published.error()));
  ++done_.files_done;
  return {};
}

}  // namespace

std::unique_ptr<Command> make_cp_command() {
  return std::make_unique<CpCommand>();
}

}  // namespace leat
