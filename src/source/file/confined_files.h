// SPDX-License-Identifier: Apache-2.0
// confine_files: a file source that leads only to files in some folders. Each call resolves the
// links of its keys first, so a link in such a folder that leads out of it leads nowhere.
//
// The check comes before the call: a local user who can exchange a link between the two can still
// lead a call astray. The folders are therefore for directories that only trusted users can write.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "source/source.h"

namespace leat {

// Whether a path is one of `folders`, or below one; all are normal and absolute. Looks at no file.
bool is_in_folders(std::string_view path, const std::vector<std::string>& folders);

// `files` is a FileSource; `folders` are absolute paths, which may be links themselves. Every
// refusal is kPermissionDenied and is passed to `refused`, on any thread.
SourcePtr confine_files(SourcePtr files, std::vector<std::string> folders,
                        std::function<void(const Status&)> refused);

}  // namespace leat
