// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/client/tree.h"
#include "apps/command_table.h"
#include "apps/text_table.h"

namespace leat {
namespace {

class StatCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "Folder, file, or a store's URL")->type_name("PATH")->required();
  }

  Attempt<> run() override {
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
    if (entry.cached_bytes) table.add({"cached", format_bytes(*entry.cached_bytes)});
    if (!stat.source.empty()) table.add({"source", stat.source});
    if (!stat.mount.empty()) table.add({"mount", stat.mount});
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
