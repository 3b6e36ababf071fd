// SPDX-License-Identifier: Apache-2.0
// Request handlers by kind; each function adds its own to libfuse's table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/fuse/fuse_server_state.h"
#include "frontends/fuse/libfuse.h"
#include "vfs/file_system.h"

namespace leat {

// Undoes a killed predecessor's work for a request that it did not answer. Returns true if nothing
// else remains to do.
bool undo_unanswered(FuseServerState& server, uint64_t unique);

// Records an open, and says in the reply how the kernel reads and writes the file.
void open_in_kernel(FuseServerState& server, const std::shared_ptr<OpenFile>& file,
                    fuse_file_info& info);

// Ends an open of a file that may have been written. Saves it in the background; a failure is
// logged.
void end_open(FuseServerState& server, std::shared_ptr<OpenFile> file);

// lookup, forget, getattr, readdir and readdirplus, statfs, extended attributes.
void add_name_operations(fuse_lowlevel_ops& operations);
// open, read, release.
void add_file_operations(fuse_lowlevel_ops& operations);
// Changes of files and names, for a file system that takes them.
void add_write_operations(fuse_lowlevel_ops& operations);
// Those of them that only some stores can do: link, xattr; and tmpfile.
void add_posix_operations(fuse_lowlevel_ops& operations);
// Replies to mknod of `type`, S_IF…, which is no regular file.
void make_special_file(fuse_req_t request, NamespaceChanges& changes, NodeId parent,
                       std::string name, NewName as, mode_t type, dev_t device);
// Returns true if the store of the node keeps the attribute: the reply is sent, or will be.
bool answer_attribute(fuse_req_t request, NodeId node, std::string_view name, size_t size);
// Replies with `own` and with what the store of the node keeps.
void answer_attribute_names(fuse_req_t request, NodeId node, const std::vector<std::string>& own,
                            size_t size);
// Replies a value or a list of names; both calls use size 0 to ask for the length.
void reply_attribute(fuse_req_t request, std::string_view value, size_t size);
// All modifying operations: EROFS, with the reason logged.
void add_rejected_operations(fuse_lowlevel_ops& operations);

// ---- parts of the operations that change a mount

NewName new_name(fuse_req_t request, mode_t mode);

// Returns null, after a reply, for a node that takes no changes (one of `.leat`), and for a name
// that is too long.
NamespaceChanges* changes_of(fuse_req_t request, NodeId node, std::string_view operation,
                             std::string_view name = {});

// Runs an operation that answers with nothing but its success.
void spawn_result(fuse_req_t request, NodeId node, std::string_view name, RequestKind kind,
                  std::function<Task<Result<>>(Context)> operation);

// Runs an operation that makes a name in `parent`. EPERM where the store has no such files, as
// POSIX demands.
void spawn_entry(fuse_req_t request, NodeId parent, std::string_view name,
                 std::function<Task<Result<NodeAttributes>>(Context)> operation);

// Replies to a request that creates and opens a file.
void spawn_create(fuse_req_t request, NodeId parent, std::string_view name,
                  const fuse_file_info& info,
                  std::function<Task<Result<CreatedFile>>(Context)> operation);

}  // namespace leat
