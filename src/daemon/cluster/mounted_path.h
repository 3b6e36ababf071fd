// SPDX-License-Identifier: Apache-2.0
// Checks that the source of a leat:// mount exists. A path that does not exist, or that the token
// may not read, would be an empty folder.
#pragma once

#include <optional>
#include <string>

#include "auth/token.h"
#include "cluster/cluster_view.h"
#include "source/source.h"

namespace leat {

// Returns why `view` has nothing to show at `path` ("/data"), which must be in a mount or lead to
// one. `claims`: the rights of the token that got the view; nothing for a worker, which may see
// all.
std::optional<Status> mount_path_error(const ClusterView& view, const std::string& path,
                                       const std::optional<TokenClaims>& claims);

// The same for views that arrive within two seconds: a worker may lag behind the one that has just
// added a mount.
Task<Result<>> wait_for_mount_path(Context context, ClusterViewSource& views, std::string path,
                                   std::optional<TokenClaims> claims);

// kNotFound if the directory `key` ("" or ending in '/') is in no store of the cluster. Ignores all
// other errors: the caller's first request reports them.
Task<Result<>> check_directory(Context context, SourcePtr source, std::string key);

// Reads the claims of a token. Returns nothing for an empty name or an unreadable file. Blocks.
std::optional<TokenClaims> claims_in(const std::string& token_file);

}  // namespace leat
