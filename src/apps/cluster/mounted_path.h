// SPDX-License-Identifier: Apache-2.0
// What a folder of leat:// is to show has to be there when it is mounted: a path that is not, or
// that a token may not read, would be an empty folder.
#pragma once

#include <optional>
#include <string>

#include "cluster/cluster_view.h"
#include "peer/trust/token.h"
#include "source/source.h"

namespace leat {

// Why `view` has nothing to show at `path` ("/data"), which is in a mount or leads to one else.
// `claims`: of the token by which the view was got; nothing: of a worker, which may see everything.
std::optional<Status> why_not_mounted(const ClusterView& view, const std::string& path,
                                      const std::optional<TokenClaims>& claims);

// The same of the views that come within two seconds, since a worker may be a little behind the one
// that has just mounted something.
Task<Result<>> await_mounted(Context context, ClusterMap& map, std::string path,
                             std::optional<TokenClaims> claims);

// kNotFound if the directory `key` ("" or ending in '/') is in no store of the cluster. Any other
// error is left to the caller's own first request.
Task<Result<>> check_directory(Context context, SourcePtr source, std::string key);

// Nothing for an empty name or a file that cannot be read. Blocks.
std::optional<TokenClaims> claims_in(const std::string& token_file);

}  // namespace leat
