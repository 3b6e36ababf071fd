// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/command/progress.h"
#include "apps/cli/mount/flush_wait.h"
#include "base/units.h"
#include "config/paths.h"
#include "frontends/admin/codec.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

std::string left(const UnsentView& unsent) {
  return fmt::format("{} changes with {} left", unsent.changes, format_bytes(unsent.bytes));
}

class FlushCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "A path in a folder; without it, all folders")->type_name("PATH");
  }

  CommandResult<> run() override {
    std::string path = "/";
    if (!path_.empty()) {
      LEAT_TRY(path, path_in_mounts("flush", path_));
      LEAT_CHECK_OK(check_in_mounts(path));
    }
    DaemonClient client(runtime_directory());
    LEAT_TRY(const UnsentView sent, wait_for_flush(client, path));
    if (json) {
      print_json(Json{{"path", path}, {"changes", sent.changes}, {"bytes", sent.bytes}});
    } else if (sent.changes == 0) {
      print("the store has everything already");
    } else {
      print(fmt::format("the store has everything: {} changes with {} were sent", sent.changes,
                        format_bytes(sent.bytes)));
    }
    return {};
  }

 private:
  std::string path_;
};

}  // namespace

CommandResult<UnsentView> wait_for_flush(DaemonClient& client, const std::string& path) {
  UnsentView first;
  LEAT_TRY(const Json mounts, client.get("/v1/mounts"));
  for (const Json& one : mounts["mounts"]) {
    LEAT_TRY(const MountView view, from_json<MountView>(one));
    if (!view.unsent) continue;
    if (!is_at_or_below(view.path, path) && !is_at_or_below(path, view.path)) continue;
    first.changes += view.unsent->changes;
    first.bytes += view.unsent->bytes;
  }
  Progress progress;
  for (;;) {
    LEAT_TRY(const Json answer, client.post("/v1/mounts/flush", to_json(FlushRequest{path})));
    LEAT_TRY(const FlushView view, from_json<FlushView>(answer));
    if (view.done) return first;
    progress.show(left(view.unsent));
  }
}

std::unique_ptr<Command> make_flush_command() {
  return std::make_unique<FlushCommand>();
}

}  // namespace leat
