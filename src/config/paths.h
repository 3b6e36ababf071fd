// SPDX-License-Identifier: Apache-2.0
// Default paths on this host, and the interpretation of PATH arguments.
#pragma once

#include <string>

#include "base/status.h"

namespace leat {

// Returns LEAT_RUNTIME_DIR, else /run/leat for root, else $XDG_RUNTIME_DIR/leat, else
// /tmp/leat-UID.
std::string runtime_directory();
// Checks the directory before its content is trusted. Returns kPermissionDenied unless it is a
// directory of this user, in which no other user can create a false socket. Returns kNotFound if
// there is none.
Result<> check_runtime_directory(const std::string& path);
// Creates it with mode 0700 if it is missing; then checks it.
Result<> make_runtime_directory(const std::string& path);

std::string control_socket(const std::string& runtime);
std::string daemon_log(const std::string& runtime);
std::string pid_file(const std::string& runtime);
// Path of the file with loads that a successor continues.
std::string job_journal(const std::string& runtime);
// Path of the record of the daemon's FUSE connections
// (frontends/fuse/connection/connection_record.h).
std::string connection_record(const std::string& runtime);

// Returns /var/cache/leat for root, else $XDG_CACHE_HOME/leat or ~/.cache/leat.
std::string default_cache_directory();
// Returns /var/lib/leat/snapshots for root, else $XDG_DATA_HOME/leat/snapshots or
// ~/.local/share/leat/snapshots.
std::string default_snapshot_directory();
// Returns the file of --config, else the first of these that exists:
// $XDG_CONFIG_HOME/leat/leat.toml, ~/.config/leat/leat.toml, /etc/leat/leat.toml. Empty if there is
// none.
std::string default_config_file();

// Returns a path in the daemon's form: absolute, without "..", links resolved as far as the
// path exists. Also works for a mount of a daemon that has ended.
std::string absolute_path(const std::string& path);

}  // namespace leat
