// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/client/path_tree.h"
#include "apps/cli/command/command_table.h"
#include "base/pluralize.h"
#include "base/text_table.h"

namespace leat {
namespace {

std::string cached_share(const EntryView& entry) {
  if (!entry.cached_bytes) return "-";
  if (entry.size == 0) return "100%";
  return fmt::format("{}%", *entry.cached_bytes * 100 / entry.size);
}

class LsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "Folder or file, or a store's URL (.)")->type_name("PATH");
    app.add_flag("-l,--long", long_, "Show sizes, cached share and times");
  }

  CommandResult<> run() override {
    LEAT_TRY(Target target, open_target(path_));
    Json entries = Json::array();
    TextTable table("rrll");
    EntryCallback each = [&](const EntryView& entry) -> CommandResult<> {
      if (json) {
        entries.push_back(to_json(entry));
      } else {
        show(entry, table);
      }
      return {};
    };
    LEAT_TRY(uint64_t skipped, target.tree->list(target.path, long_, each));
    if (json) {
      ListView itself{.path = target.path, .skipped = skipped};
      Json document = to_json(itself);
      document.erase("kind");
      document["entries"] = std::move(entries);
      print_json(document);
    }
    if (std::string text = table.to_string(); !text.empty()) print(text);
    if (skipped != 0)
      note(fmt::format("left out {}, which cannot be shown", pluralize(skipped, "name")));
    return {};
  }

 private:
  void show(const EntryView& entry, TextTable& table) const {
    bool directory = entry.kind == FileKind::kDirectory;
    std::string name = entry.name + (directory ? "/" : "");
    if (!long_) {
      print(printable(name));
      return;
    }
    table.add(
        {directory ? "-" : format_bytes(entry.size), directory ? "-" : cached_share(entry),
         entry.mtime ? format_time(std::chrono::floor<std::chrono::seconds>(*entry.mtime)) : "-",
         name});
  }

  std::string path_ = ".";
  bool long_ = false;
};

}  // namespace

std::unique_ptr<Command> make_ls_command() {
  return std::make_unique<LsCommand>();
}

}  // namespace leat
