// SPDX-License-Identifier: Apache-2.0
// Answers in the kernel's format. Each function replies to its request exactly once.
#pragma once

#include <sys/stat.h>

#include "frontends/fuse/fuse_server_state.h"

namespace leat {

// Replies the errno of `status`. If worth_logging(), also logs it and records it as an error of
// `node`, or of the looked-up name in it.
void reply_error(FuseServerState& server, fuse_req_t request, NodeId node, const Status& status,
                 std::string_view name = {});

// Replies to a lookup of `name` in `parent`, or an error. A missing name is cached for
// `missing_for`. Undoes the lookup if the kernel no longer wants it. `unique` is the kernel's
// request number.
void reply_entry(FuseServerState& server, fuse_req_t request, uint64_t unique, NodeId parent,
                 std::string_view name, const Result<NodeAttributes>& found,
                 Clock::duration missing_for);
void reply_attributes(FuseServerState& server, fuse_req_t request, NodeId node,
                      const Result<NodeAttributes>& attributes);
// Sends the pieces without a copy.
void reply_bytes(fuse_req_t request, const Bytes& bytes);

struct stat to_stat(const NodeAttributes& attributes);
fuse_entry_param to_entry(const NodeAttributes& attributes);

}  // namespace leat
