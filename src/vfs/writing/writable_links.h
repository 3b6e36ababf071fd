// SPDX-License-Identifier: Apache-2.0
// Returns the changes of WritableFileSystem that only some stores can do: hard links, special
// files, extended attributes; and files without a name.
#pragma once

#include <memory>

#include "vfs/file_system.h"

namespace leat {

class WritableFileSystem;

// `files` outlives the result.
std::unique_ptr<PosixChanges> make_posix_changes(WritableFileSystem& files);

}  // namespace leat
