// SPDX-License-Identifier: Apache-2.0
// The handlers by kind; each function enters its own into libfuse's table.
#pragma once

#include <cstdint>

#include "doors/fuse/libfuse.h"

namespace leat {

struct DoorState;

// Takes back what a killed predecessor did for a request that it did not answer. True when that was
// all that there is to do.
bool undo_unanswered(DoorState& door, uint64_t unique);

// lookup, forget, getattr, readdir and readdirplus, statfs, extended attributes.
void add_name_operations(fuse_lowlevel_ops& operations);
// open, read, release.
void add_file_operations(fuse_lowlevel_ops& operations);
// Everything that would change something: EROFS, with the reason told.
void add_refused_operations(fuse_lowlevel_ops& operations);

}  // namespace leat
