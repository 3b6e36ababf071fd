// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/cli/client/path_tree.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/command/interrupt.h"
#include "apps/cli/command/progress.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "base/units.h"
#include "http/json_fields.h"

namespace leat {
namespace {

// The totals of a tree.
struct TreeUsage {
  uint64_t files = 0, directories = 0, bytes = 0;
  uint64_t cached_bytes = 0;
  bool of_mount = false;  // cached_bytes is known
  uint64_t skipped = 0;   // names that cannot be those of files

  void add(const TreeUsage& below) {
    files += below.files;
    directories += below.directories;
    bytes += below.bytes;
    cached_bytes += below.cached_bytes;
    of_mount |= below.of_mount;
    skipped += below.skipped;
  }
  void add(const EntryView& file) {
    ++files;
    bytes += file.size;
    cached_bytes += file.cached_bytes.value_or(0);
    of_mount |= file.cached_bytes.has_value();
  }
};

// Rounds down, so that 100% means all of it.
std::string cached_share(const TreeUsage& usage) {
  if (!usage.of_mount) return "-";
  if (usage.bytes == 0) return "100%";
  const double share = static_cast<double>(std::min(usage.cached_bytes, usage.bytes)) /
                       static_cast<double>(usage.bytes);
  return fmt::format("{}%", static_cast<int>(share * 100));
}

void put_usage(Json& json, const TreeUsage& usage) {
  json["files"] = usage.files;
  json["directories"] = usage.directories;
  json["bytes"] = usage.bytes;
  if (usage.of_mount) json["cached_bytes"] = usage.cached_bytes;
}

class DuCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "Folder or file, or a store's URL (.)")->type_name("PATH");
    app.add_option("-d,--depth", depth_, "Show directories down to this depth below PATH (1)")
        ->type_name("NUMBER")
        ->check(CLI::Range(0, 1000).description(""));
  }

  CommandResult<> run() override {
    LEAT_TRY(Target target, open_target(path_));
    const InterruptWatch watch;
    LEAT_TRY(const StatView stat, target.tree->stat(target.path, /*prefix_first=*/true));
    TreeUsage whole;
    if (stat.entry.kind == FileKind::kDirectory) {
      LEAT_TRY(whole, sum_tree(*target.tree, target.path, 0));
    } else {
      whole.add(stat.entry);
    }
    progress_.clear();
    show(target.path, whole);
    return {};
  }

 private:
  struct Row {
    std::string path;
    TreeUsage usage;
  };

  CommandResult<TreeUsage> sum_tree(PathTree& tree, const std::string& path, unsigned depth) {
    TreeUsage usage;
    std::vector<std::string> directories;
    EntryCallback each = [&](const EntryView& entry) -> CommandResult<> {
      if (const int signal = InterruptWatch::signal_received(); signal != 0) {
        return std::unexpected(
            Failure(Status(StatusCode::kCancelled, "interrupted"), exit_code_of_signal(signal)));
      }
      if (entry.kind == FileKind::kDirectory) {
        directories.push_back(entry.name);
      } else {
        usage.add(entry);
      }
      return {};
    };
    LEAT_TRY(usage.skipped, tree.list(path, /*cached=*/true, each));
    found_.files_done += usage.files;
    found_.bytes_done += usage.bytes;
    progress_.show(fmt::format("{}, {} so far", pluralize(found_.files_done, "file"),
                               format_bytes(found_.bytes_done)));
    for (const std::string& name : directories) {
      LEAT_TRY(const TreeUsage below, sum_tree(tree, child_path(path, name), depth + 1));
      usage.add(below);
      ++usage.directories;
    }
    if (depth > 0 && depth <= depth_) rows_.push_back({path, usage});
    return usage;
  }

  void show(const std::string& path, const TreeUsage& whole) {
    if (json) {
      Json document = {{"skipped", whole.skipped}, {"entries", Json::array()}};
      put_bytes(document, "path", path);
      put_usage(document, whole);
      for (const Row& row : rows_) {
        Json& entry = document["entries"].emplace_back(Json::object());
        put_bytes(entry, "path", row.path);
        put_usage(entry, row.usage);
      }
      print_json(document);
      return;
    }
    TextTable table("rrrl");
    auto add = [&table](const std::string& name, const TreeUsage& usage) {
      table.add(
          {format_bytes(usage.bytes), pluralize(usage.files, "file"), cached_share(usage), name});
    };
    for (const Row& row : rows_) add(row.path, row.usage);
    add(path, whole);
    print(table.to_string());
    if (whole.skipped != 0) {
      note(fmt::format("left out {}, which cannot be shown", pluralize(whole.skipped, "name")));
    }
  }

  std::string path_ = ".";
  unsigned depth_ = 1;
  std::vector<Row> rows_;  // of directories, subdirectories before their parents
  ProgressState found_;
  Progress progress_;
};

}  // namespace

std::unique_ptr<Command> make_du_command() {
  return std::make_unique<DuCommand>();
}

}  // namespace leat
