// SPDX-License-Identifier: Apache-2.0
// Where things lie on this host, and what a PATH argument means.
#pragma once

#include <string>

#include "base/status.h"

namespace leat {

// LEAT_RUNTIME_DIR, else /run/leat for root, else $XDG_RUNTIME_DIR/leat, else /tmp/leat-UID.
std::string runtime_directory();
// Before anything in it is believed: kPermissionDenied unless it is a directory of this user into
// which nobody else can put a false socket; kNotFound when there is none.
Result<> check_runtime_directory(const std::string& path);
// Made with mode 0700 if it is missing; then the same.
Result<> make_runtime_directory(const std::string& path);

std::string control_socket(const std::string& runtime);
std::string daemon_log(const std::string& runtime);
std::string pid_file(const std::string& runtime);
// Loads that a successor goes on with.
std::string kept_jobs(const std::string& runtime);
// Which FUSE connections the daemon has (doors/fuse/connection/connection_record.h).
std::string connection_record(const std::string& runtime);

// /var/cache/leat for root, else $XDG_CACHE_HOME/leat or ~/.cache/leat.
std::string default_cache_directory();
// /var/lib/leat/snapshots for root, else $XDG_DATA_HOME/leat/snapshots or
// ~/.local/share/leat/snapshots.
std::string default_snapshot_directory();
// --config's, else the first of these that exists: $XDG_CONFIG_HOME/leat/leat.toml,
// ~/.config/leat/leat.toml, /etc/leat/leat.toml. Empty when there is none.
std::string default_config_file();

// A folder path as the daemon knows it: absolute, links resolved as far as the path exists, without
// "..". A mount whose daemon is gone does not keep it from being named.
std::string absolute_path(const std::string& path);
// Whether `argument` is a store's URL and not a path. "s3:/bucket" is one, with a slash missing.
bool is_store_url(const std::string& argument);

}  // namespace leat
