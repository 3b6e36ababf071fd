// SPDX-License-Identifier: Apache-2.0
// Request handlers by kind; each function adds its own to libfuse's table.
#pragma once

#include <cstdint>
#include <memory>

#include "frontends/fuse/libfuse.h"

namespace leat {

class OpenFile;
struct FuseServerState;

// Undoes a killed predecessor's work for a request that it did not answer. Returns true if nothing
// else remains to do.
bool undo_unanswered(FuseServerState& server, uint64_t unique);

// Ends an open of a file that may have been written. Saves it in the background; a failure is
// logged.
void end_open(FuseServerState& server, std::shared_ptr<OpenFile> file);

// lookup, forget, getattr, readdir and readdirplus, statfs, extended attributes.
void add_name_operations(fuse_lowlevel_ops& operations);
// open, read, release.
void add_file_operations(fuse_lowlevel_ops& operations);
// Changes of files and names, for a file system that takes them.
void add_write_operations(fuse_lowlevel_ops& operations);
// All modifying operations: EROFS, with the reason logged.
void add_rejected_operations(fuse_lowlevel_ops& operations);

}  // namespace leat
