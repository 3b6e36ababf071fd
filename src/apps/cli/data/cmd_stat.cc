// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "apps/cli/client/path_tree.h"
#include "apps/cli/command/command_table.h"
#include "base/text_table.h"

namespace leat {
namespace {

// Returns "2 % (64.0 KiB)"; 100 % only if all of it is cached.
std::string cached_share(uint64_t cached, uint64_t size) {
  const std::string bytes = format_bytes(cached);
  if (cached >= size) return fmt::format("100 % ({})", bytes);
  const double share = 100.0 * static_cast<double>(cached) / static_cast<double>(size);
  if (cached != 0 && share < 1) return fmt::format("below 1 % ({})", bytes);
  return fmt::format("{} % ({})", std::min(99, static_cast<int>(share)), bytes);
}

std::string fuse_mount_line(const StatView& stat) {
  if (stat.served_by.empty()) return stat.fuse_mount;
  return fmt::format("{} ({})", stat.fuse_mount,
                     stat.served_by == "kernel" ? "the kernel reads it by itself: passthrough"
                                                : "the daemon answers");
}

class StatCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "Folder, file, or a store's URL")->type_name("PATH")->required();
  }

  CommandResult<> run() override {
    LEAT_TRY(Target target, open_target(path_));
    LEAT_TRY(StatView stat, target.tree->stat(target.path));
    if (json) {
      print_json(to_json(stat));
      return {};
    }
    const EntryView& entry = stat.entry;
    TextTable table("ll");
    table.add({"path", stat.path});
    table.add({"kind", entry.kind == FileKind::kFile ? "file" : "directory"});
    if (entry.kind == FileKind::kFile) {
      table.add({"size", fmt::format("{} ({})", entry.size, format_bytes(entry.size))});
      table.add({"version", entry.version});
    }
    if (entry.mtime) table.add({"mtime", format_time(*entry.mtime)});
    if (entry.cached_bytes) {
      table.add({"cached", cached_share(*entry.cached_bytes, entry.size)});
    }
    if (!stat.source.empty()) table.add({"source", stat.source});
    if (!stat.mount.empty()) table.add({"mount", stat.mount});
    if (!stat.fuse_mount.empty()) table.add({"fuse", fuse_mount_line(stat)});
    print(table.to_string());
    return {};
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Command> make_stat_command() {
  return std::make_unique<StatCommand>();
}

}  // namespace leat
