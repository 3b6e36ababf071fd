// SPDX-License-Identifier: Apache-2.0
// Snapshots: listings of whole data sets as files. Mounts use them, and people compare, keep and
// copy them to other hosts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "apps/cli/cache/job_command.h"
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "base/units.h"
#include "catalog/snapshot/snapshot.h"
#include "catalog/snapshot/snapshot_diff.h"
#include "config/paths.h"
#include "daemon/daemon_options.h"
#include "daemon/snapshot_service.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Returns "mnt-train-20261122T083000Z".
std::string default_name(const std::string& path) {
  std::string name;
  for (const char c : path) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    if (fits) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  if (name.empty() || name[0] == '.') name = "snapshot" + name;
  name.resize(std::min<size_t>(name.size(), 150));
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  std::string time = format_time(now);
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  return fmt::format("{}-{}", name, time);
}

struct Counts {
  uint64_t added = 0, removed = 0, changed = 0;
};

const char* name_of(SnapshotDifference::Kind kind) {
  switch (kind) {
    case SnapshotDifference::Kind::kAdded:
      return "added";
    case SnapshotDifference::Kind::kRemoved:
      return "removed";
    case SnapshotDifference::Kind::kChanged:
      break;
  }
  return "changed";
}

class SnapshotCommand : public Command {
 public:
  void declare(CLI::App& app) override;
  CommandResult<> run() override { return action_(); }

 private:
  CommandResult<> build();
  CommandResult<> list();
  CommandResult<> diff();
  CommandResult<> use();
  CommandResult<> release();
  CommandResult<> share();
  CommandResult<> add();
  CommandResult<> remove();

  CommandResult<> exchange(const SnapshotUse& use, const std::string& message);
  CommandResult<> copy(const std::string& from, const std::string& to);
  CommandResult<std::string> directory();
  CommandResult<std::string> file_of(const std::string& name_or_file);

  std::function<CommandResult<>()> action_;
  std::string path_, name_, other_, file_;
  bool use_ = false, summary_ = false;
};

void SnapshotCommand::declare(CLI::App& app) {
  app.require_subcommand(1);
  app.fallthrough();
  auto add = [&](const char* name, const char* help, CommandResult<> (SnapshotCommand::*action)()) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
    return sub;
  };
  CLI::App* build =
      add("build", "Build a snapshot of all names below a folder", &SnapshotCommand::build);
  build->add_option("PATH", path_, "Folder of a mount")->type_name("MOUNT")->required();
  build->add_option("--name", name_, "Name of the snapshot (folder and time)")->type_name("NAME");
  build->add_flag("--use", use_, "Switch the mount to the new snapshot");
  CLI::App* list = add("ls", "List snapshots of this host or of a cluster", &SnapshotCommand::list);
  list->add_option("PATH", path_, "Mount point of a cluster, to list its snapshots")
      ->type_name("MOUNT");
  CLI::App* diff = add("diff", "List names added, removed and changed between two snapshots",
                       &SnapshotCommand::diff);
  diff->add_option("BEFORE", name_, "Name or file of a snapshot")
      ->type_name("SNAPSHOT")
      ->required();
  diff->add_option("AFTER", other_, "Name or file of another")->type_name("SNAPSHOT")->required();
  diff->add_flag("--summary", summary_, "Print counts only");
  CLI::App* use = add("use", "Use a snapshot for a mount", &SnapshotCommand::use);
  use->add_option("NAME", name_, "The snapshot")->type_name("SNAPSHOT")->required();
  use->add_option("PATH", path_, "The mount's folder")->type_name("MOUNT")->required();
  CLI::App* release = add("release", "Use the store again for a mount", &SnapshotCommand::release);
  release->add_option("PATH", path_, "The mount's folder")->type_name("MOUNT")->required();
  CLI::App* share =
      add("share", "Write a snapshot to a file that other hosts can add", &SnapshotCommand::share);
  share->add_option("NAME", name_, "The snapshot")->type_name("SNAPSHOT")->required();
  share->add_option("FILE", file_, "File to create")->type_name("FILE")->required();
  CLI::App* adding = add("add", "Add a snapshot of another host", &SnapshotCommand::add);
  adding->add_option("FILE", file_, "File written by 'share'")->type_name("FILE")->required();
  adding->add_option("--name", name_, "Name of the snapshot here (as in the file)")
      ->type_name("NAME");
  CLI::App* removing = add("rm", "Remove a snapshot that no mount uses", &SnapshotCommand::remove);
  removing->add_option("NAME", name_, "The snapshot")->type_name("SNAPSHOT")->required();
  removing
      ->add_option("PATH", path_,
                   "Mount point of a cluster, to remove its snapshot for all clients")
      ->type_name("MOUNT");
}

CommandResult<> SnapshotCommand::build() {
  LEAT_TRY(const std::string path, path_in_mounts("snapshot build", path_));
  if (name_.empty()) name_ = default_name(path);
  LEAT_CHECK_OK(check_snapshot_name(name_));
  JobCommand job(JobRequest{"snapshot", path, name_});
  job.json = json;
  job.quiet = use_ && json;
  LEAT_CHECK_OK(job.run());
  if (!use_) return {};
  return exchange({path, name_}, fmt::format("{} uses {}", path, name_));
}

CommandResult<> SnapshotCommand::list() {
  std::map<std::string, std::string> query;
  if (!path_.empty()) {
    LEAT_TRY(query["path"], path_in_mounts("snapshot ls", path_));
  }
  const char* route = path_.empty() ? "/v1/snapshots" : "/v1/cluster/snapshots";
  LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get(route, query));
  if (json) {
    print_json(answer);
    return {};
  }
  TextTable table("lrrlll");
  for (const Json& item : answer["snapshots"]) {
    LEAT_TRY(SnapshotView view, from_json<SnapshotView>(item));
    if (!view.broken.empty()) {
      table.add({view.name, "", "", "", "", view.broken});
      continue;
    }
    const std::string users =
        view.used_by.empty() ? "" : fmt::format("used by {}", fmt::join(view.used_by, ", "));
    table.add({view.name, pluralize(view.files, "file"), format_bytes(view.bytes),
               format_time(std::chrono::floor<std::chrono::seconds>(view.created)), view.source,
               users});
  }
  if (std::string text = table.to_string(); !text.empty()) print(text);
  return {};
}

// Returns the daemon's snapshot directory, if one runs.
CommandResult<std::string> SnapshotCommand::directory() {
  DaemonClient client(runtime_directory());
  if (client.running()) {
    LEAT_TRY(DaemonStatus status, client.get_as<DaemonStatus>("/v1/status"));
    auto option = status.options.find("snapshot.directory");
    if (option != status.options.end()) return option->second;
  }
  LEAT_TRY(Config config, read_daemon_config({}));
  return config.text("snapshot.directory");
}

CommandResult<std::string> SnapshotCommand::file_of(const std::string& name_or_file) {
  if (name_or_file.contains('/') || fs::exists(name_or_file)) return name_or_file;
  LEAT_CHECK_OK(check_snapshot_name(name_or_file));
  LEAT_TRY(std::string directory, this->directory());
  return snapshot_file(directory, name_or_file);
}

CommandResult<> SnapshotCommand::diff() {
  LEAT_TRY(std::string before_file, file_of(name_));
  LEAT_TRY(std::string after_file, file_of(other_));
  LEAT_TRY(SnapshotPtr before, Snapshot::open(before_file));
  LEAT_TRY(SnapshotPtr after, Snapshot::open(after_file));
  Counts counts;
  bool first = true;
  if (json) std::fputs("{\"differences\":[", stdout);
  diff_snapshots(*before, *after, [&](const SnapshotDifference& one) {
    using Kind = SnapshotDifference::Kind;
    ++(one.kind == Kind::kAdded     ? counts.added
       : one.kind == Kind::kRemoved ? counts.removed
                                    : counts.changed);
    if (summary_) return true;
    if (!json) {
      print(describe_change(name_of(one.kind), one.path));
      return true;
    }
    Json item = {{"kind", name_of(one.kind)}, {"path", one.path}};
    if (!std::exchange(first, false)) std::fputc(',', stdout);
    std::fputs(dump_json(item).c_str(), stdout);
    return true;
  });
  if (json) {
    std::fputs(fmt::format("],\"added\":{},\"removed\":{},\"changed\":{}}}\n", counts.added,
                           counts.removed, counts.changed)
                   .c_str(),
               stdout);
  } else {
    print(fmt::format("{} added, {} removed, {} changed", counts.added, counts.removed,
                      counts.changed));
  }
  return {};
}

CommandResult<> SnapshotCommand::exchange(const SnapshotUse& use, const std::string& message) {
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.post("/v1/snapshots/use", to_json(use)));
  if (json) {
    print_json(to_json(use));
  } else {
    print(message);
  }
  return {};
}

CommandResult<> SnapshotCommand::use() {
  LEAT_TRY(const std::string path, path_in_mounts("snapshot use", path_));
  return exchange({path, name_}, fmt::format("{} uses {}", path, name_));
}

CommandResult<> SnapshotCommand::release() {
  LEAT_TRY(const std::string path, path_in_mounts("snapshot release", path_));
  return exchange({path, ""}, fmt::format("{} uses its store again", path));
}

// Verifies the snapshot during the copy. It gets its name only when it is complete.
CommandResult<> SnapshotCommand::copy(const std::string& from, const std::string& to) {
  LEAT_TRY(SnapshotPtr whole, Snapshot::open(from));
  const std::string partial = to + ".partial";
  std::error_code failed;
  fs::copy_file(from, partial, fs::copy_options::overwrite_existing, failed);
  if (!failed) {
    LEAT_CHECK_OK(Snapshot::open(partial));
  }
  if (!failed) fs::rename(partial, to, failed);
  if (failed) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    return std::unexpected(
        Failure(status_from_errno(failed.value(), fmt::format("cannot copy {} to {}", from, to))));
  }
  const SnapshotHead& head = whole->head();
  if (json) {
    print_json({{"file", to}, {"source", head.source}, {"files", head.files}});
  } else {
    print(fmt::format("{}: {} of {}", to, pluralize(head.files, "file"), head.source));
  }
  return {};
}

CommandResult<> SnapshotCommand::share() {
  LEAT_TRY(std::string from, file_of(name_));
  return copy(from, absolute_path(file_));
}

CommandResult<> SnapshotCommand::add() {
  if (name_.empty()) name_ = fs::path(file_).stem();
  LEAT_CHECK_OK(check_snapshot_name(name_));
  LEAT_TRY(std::string directory, this->directory());
  std::error_code failed;
  fs::create_directories(directory, failed);
  const std::string to = snapshot_file(directory, name_);
  if (fs::exists(to)) {
    return failure(
        StatusCode::kExists,
        fmt::format("there is a snapshot '{}' already; --name gives this one another", name_));
  }
  return copy(file_, to);
}

CommandResult<> SnapshotCommand::remove() {
  std::map<std::string, std::string> query = {{"name", name_}};
  if (!path_.empty()) {
    LEAT_TRY(query["path"], path_in_mounts("snapshot rm", path_));
  }
  const char* route = path_.empty() ? "/v1/snapshots" : "/v1/cluster/snapshots";
  LEAT_TRY(Json answer, DaemonClient(runtime_directory()).remove(route, query));
  if (json) {
    print_json(answer);
  } else {
    print("removed " + name_);
  }
  return {};
}

}  // namespace

std::unique_ptr<Command> make_snapshot_command() {
  return std::make_unique<SnapshotCommand>();
}

}  // namespace leat
