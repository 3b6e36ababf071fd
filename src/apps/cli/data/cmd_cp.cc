// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/command/interrupt.h"
#include "apps/cli/data/selection_flags.h"
#include "apps/cli/data/tree_copy.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "base/units.h"
#include "config/paths.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class CpCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SRC", source_, "File or folder: of a mount, local, or a store's URL")
        ->type_name("PATH")
        ->required();
    app.add_option("DST", destination_, "Local file or directory, or a store's URL")
        ->type_name("PATH")
        ->required();
    app.add_flag("-r,--recursive", recursive_, "Copy directories recursively");
    app.add_flag("-f,--force", options_.force, "Replace existing files");
    app.add_flag(
        "-u,--update", options_.update,
        "Skip files with the same size and time, replace the rest; resumes an interrupted copy");
    app.add_flag("--dry-run", options_.dry_run, "Print what would be copied, without copying");
    app.add_option("--parallel", options_.files_max, "Concurrent files (8)")
        ->type_name("NUMBER")
        ->check(CLI::Range(1, 256).description(""));
    app.add_option("--bandwidth", bandwidth_, "Maximum bytes per second")->type_name("SIZE");
    selection_.declare(app);
  }

  CommandResult<> run() override;

 private:
  CommandResult<Target> open_source();
  CommandResult<> report(CopyReport report);

  std::string source_, destination_, bandwidth_;
  bool recursive_ = false;
  CopyOptions options_;
  SelectionFlags selection_;
};

// A path outside all mounts is local.
CommandResult<Target> CpCommand::open_source() {
  if (is_store_url(source_)) return open_target(source_);
  const std::string path = absolute_path(source_);
  if (is_in_namespace(path)) return open_target(source_);
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    return failure(
        StatusCode::kNotFound,
        fmt::format("cannot copy {}: it is in no mount, and there is no such local file", path));
  }
  LEAT_TRY(StoreUrl url, StoreUrl::parse("file:///"));
  LEAT_TRY(std::unique_ptr<PathTree> tree, make_store_tree(url));
  return Target{std::move(tree), path};
}

CommandResult<> CpCommand::run() {
  if (!bandwidth_.empty()) {
    LEAT_TRY(options_.bandwidth, parse_bytes(bandwidth_));
  }
  LEAT_TRY(options_.filter, selection_.filter());
  LEAT_TRY(Target from, open_source());
  std::unique_ptr<CopyTarget> target;
  std::string to;
  if (is_store_url(destination_)) {
    LEAT_TRY(StoreUrl url, StoreUrl::parse(destination_));
    LEAT_TRY(target, make_store_target(url));
    to = "/" + url.prefix;
    if (to.size() > 1) to.pop_back();
  } else {
    to = absolute_path(destination_);
    LEAT_CHECK_OK(check_not_in_mounts(to));
    target = make_local_target();
  }
  LEAT_TRY(StatView stat, from.tree->stat(from.path, recursive_));
  const bool directory = stat.entry.kind == FileKind::kDirectory;
  if (directory && !recursive_) {
    return failure(StatusCode::kIsDirectory,
                   fmt::format("cannot copy {}: it is a directory; add -r", source_));
  }
  // The content of a directory goes into DST, so that a repeated command continues. A file goes
  // into an existing directory; otherwise it gets the new name.
  if (!directory) {
    const std::string plain = destination_.substr(
        0, is_store_url(destination_) ? destination_.find('?') : std::string::npos);
    LEAT_TRY(std::optional<EntryView> there, target->find(to));
    const bool is_there = there && there->kind == FileKind::kDirectory;
    if (plain.ends_with('/') && !is_there) LEAT_CHECK_OK(target->make_directory(to));
    if (plain.ends_with('/') || is_there) to = target->child(to, stat.entry.name);
  }
  TreeCopy copy(*from.tree, *target, options_);
  return report(directory ? copy.copy_directory(from.path, to)
                          : copy.copy_file(stat.entry, from.path, to));
}

CommandResult<> CpCommand::report(CopyReport report) {
  Json document = {{"files", report.files},
                   {"bytes", report.bytes},
                   {"skipped", report.skipped},
                   {"failed", report.failed},
                   {"names_skipped", report.unsupported},
                   {"empty_directories", report.empty_directories},
                   {"errors", report.errors}};
  if (report.empty_directories > 0) {
    note(printable(
        fmt::format("not copied: {}, the first {}: a store has no directories of its "
                    "own",
                    pluralize(report.empty_directories, "empty directory", "empty directories"),
                    report.empty_directory)));
  }
  std::string why;
  StatusCode code = StatusCode::kUnsupported;
  ExitCode exit = ExitCode::kFailed;
  if (report.signal != 0) {
    exit = exit_code_of_signal(report.signal);
    code = StatusCode::kCancelled;
    why = fmt::format("interrupted after {}; --update goes on", pluralize(report.files, "file"));
  } else if (report.failed > 0) {
    code = report.code;
    why = fmt::format("{} could not be copied, {} were", report.failed, report.files);
  } else if (report.unsupported > 0) {
    why = fmt::format("all was copied but {}, which cannot be files",
                      pluralize(report.unsupported, "name"));
  }
  if (!why.empty()) {
    Failure some{Status(code, std::move(why)), exit};
    some.document = std::move(document);
    return std::unexpected(std::move(some));
  }
  if (json) print_json(document);
  return {};
}

}  // namespace

std::unique_ptr<Command> make_cp_command() {
  return std::make_unique<CpCommand>();
}

}  // namespace leat
