// SPDX-License-Identifier: Apache-2.0
// The configuration of a daemon, and the parameters of one run.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "frontends/admin/daemon_api.h"
#include "telemetry/log.h"

namespace leat {

// docs/cli.md documents the same options.
Schema daemon_schema();

struct DaemonRun {
  std::string runtime{};                          // directory of socket, pid file and log
  std::string config{};                           // file; empty: the default files
  std::map<std::string, std::string> settings{};  // option → value; the highest precedence
  std::string log_file{};                         // empty: standard error
  std::optional<MountRequest> first_mount{};      // mounted before it is ready
  uint64_t restarts = 0;                          // earlier daemons
  // Otherwise it ends with its last mount, and if none is made for a while.
  bool stays_when_empty = false;
  // Called once with the outcome of the start.
  std::function<void(const Result<>&)> on_ready{};
};

// Parses `cache.directory`: one directory or several, separated by commas, each with an optional
// size: "/nvme0/leat,/nvme1/leat=2TiB".
Result<std::vector<PageStoreOptions>> cache_options(const Config& config);

// Bytes of a mount that may wait for its store; `cache` is the first directory.
uint64_t staging_bytes(const Config& config, const PageStoreOptions& cache);

// Applies the options that need no restart.
void apply_reloadable_options(const Config& config);

// Describes the value of an option in `config`.
OptionView view_of(const Option& option, const Config& config);

// Merges file, environment and settings.
Result<Config> read_daemon_config(const DaemonRun& run);

}  // namespace leat
