// SPDX-License-Identifier: Apache-2.0
// confine_files: wraps a file source so that it reaches only files in some directories. Each call
// resolves the links of its keys first, so a link that leads out of such a directory is rejected.
//
// The check comes before the call, so a local user that replaces a link between the two can still
// redirect a call. Use it only for directories that only trusted users can write.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "source/source.h"

namespace leat {

// Returns whether `path` is one of `folders` or below one. All paths are normal and absolute. Does
// no file access.
bool is_in_folders(std::string_view path, const std::vector<std::string>& folders);

// Wraps `files`, a FileSource. `folders` are absolute paths, which may be links themselves. Each
// rejection is kPermissionDenied and is also passed to `on_denied`, on any thread.
SourcePtr confine_files(SourcePtr files, std::vector<std::string> folders,
                        std::function<void(const Status&)> on_denied);

}  // namespace leat
