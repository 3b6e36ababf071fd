// SPDX-License-Identifier: Apache-2.0
// What can be configured of a daemon, and how one run of it is asked for.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "doors/admin/host.h"
#include "telemetry/log.h"

namespace leat {

// docs/cli.md says the same in words.
Schema daemon_schema();

struct DaemonRun {
  std::string runtime{};                          // directory of socket, pid file and log
  std::string config{};                           // file; empty: the default ones
  std::map<std::string, std::string> settings{};  // option → value; wins over everything
  std::string log_file{};                         // empty: standard error
  std::optional<MountRequest> first_mount{};      // mounted before it is ready
  uint64_t restarts = 0;                          // daemons before this one
  // Ends with its last mount, and when nobody mounts anything for a while, unless this is set.
  bool stays_when_empty = false;
  // Told once whether the daemon came up.
  std::function<void(const Result<>&)> on_ready{};
};

// The cache as it is configured: `cache.directory` names one directory or several, separated by
// commas, each with a size of its own if need be: "/nvme0/leat,/nvme1/leat=2TiB".
Result<std::vector<PageStoreOptions>> cache_options(const Config& config);

// What hot options say, from now on.
void apply_hot_options(const Config& config);

// What `config` says of an option of its schema.
OptionView view_of(const Option& option, const Config& config);

// File, environment and settings together.
Result<Config> read_daemon_config(const DaemonRun& run);

}  // namespace leat
