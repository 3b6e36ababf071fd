// SPDX-License-Identifier: Apache-2.0
// Answers to the kernel in its own terms. Each replies to its request exactly once.
#pragma once

#include <sys/stat.h>

#include "doors/fuse/door_state.h"

namespace leat {

// The errno of `status`. What is worth it is logged and remembered as an error of `node`, or of the
// name in it that was looked up.
void reply_error(DoorState& door, fuse_req_t request, NodeId node, const Status& status,
                 std::string_view name = {});

// `name` in `parent`, which was looked up, or an error; a missing name may be believed missing for
// `missing_for`. Gives the lookup back if the kernel does not want it any more. `unique`: the
// kernel's number for the request.
void reply_entry(DoorState& door, fuse_req_t request, uint64_t unique, NodeId parent,
                 std::string_view name, const Result<NodeAttributes>& found,
                 Clock::duration missing_for);
void reply_attributes(DoorState& door, fuse_req_t request, NodeId node,
                      const Result<NodeAttributes>& attributes);
// The pieces as they lie, without a copy.
void reply_bytes(fuse_req_t request, const Bytes& bytes);

struct stat to_stat(const NodeAttributes& attributes);
fuse_entry_param to_entry(const NodeAttributes& attributes);

}  // namespace leat
