// SPDX-License-Identifier: Apache-2.0
// The table of all subcommands. A new one needs cmd_NAME.cc, a line here and a line in the table.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/cli/command/command.h"

namespace leat {

std::unique_ptr<Command> make_mount_command();
std::unique_ptr<Command> make_umount_command();
std::unique_ptr<Command> make_mounts_command();
std::unique_ptr<Command> make_ls_command();
std::unique_ptr<Command> make_du_command();
std::unique_ptr<Command> make_stat_command();
std::unique_ptr<Command> make_cat_command();
std::unique_ptr<Command> make_cp_command();
std::unique_ptr<Command> make_load_command();
std::unique_ptr<Command> make_free_command();
std::unique_ptr<Command> make_refresh_command();
std::unique_ptr<Command> make_flush_command();
std::unique_ptr<Command> make_pin_command();
std::unique_ptr<Command> make_unpin_command();
std::unique_ptr<Command> make_cache_command();
std::unique_ptr<Command> make_snapshot_command();
std::unique_ptr<Command> make_worker_command();
std::unique_ptr<Command> make_cluster_command();
std::unique_ptr<Command> make_status_command();
std::unique_ptr<Command> make_top_command();
std::unique_ptr<Command> make_jobs_command();
std::unique_ptr<Command> make_console_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_trace_command();
std::unique_ptr<Command> make_logs_command();
std::unique_ptr<Command> make_support_bundle_command();
std::unique_ptr<Command> make_version_command();
std::unique_ptr<Command> make_upgrade_command();
std::unique_ptr<Command> make_daemon_command();
std::unique_ptr<Command> make_config_command();
std::unique_ptr<Command> make_completion_command();
std::unique_ptr<Command> make_complete_command();
std::unique_ptr<Command> make_reference_command();

struct CommandEntry {
  const char* name;
  const char* group;  // heading in the list of commands
  const char* summary;
  const char* example;
  std::unique_ptr<Command> (*make)();
  bool hidden = false;  // works, but is not listed
  // Needs no daemon, and runs even if a dead daemon hangs.
  bool alone = false;
};

std::span<const CommandEntry> command_table();
// Returns the names of all commands that are not hidden.
std::vector<std::string> command_names();

}  // namespace leat
