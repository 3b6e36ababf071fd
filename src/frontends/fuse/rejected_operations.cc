// SPDX-License-Identifier: Apache-2.0
// Rejects all modifying operations. Those that need a file open for writing (write, fallocate,
// copy_file_range …) never arrive, because such opens are rejected.
#include <fmt/format.h>

#include "frontends/fuse/error_numbers.h"
#include "frontends/fuse/operations.h"
#include "frontends/fuse/replies.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// `name`: the thing to change, in `node`.
void reject(fuse_req_t request, NodeId node, std::string_view operation,
            std::string_view name = {}) {
  FuseServerState& server = FuseServerState::of(request);
  const Status status = server.file_system.reject_change(node, operation, name);
  if (server.log_limiter.admit()) log::info("{}", status.to_string());
  fuse_reply_err(request, to_errno(status.code()));
}

void setattr(fuse_req_t request, fuse_ino_t node, struct stat*, int changes, fuse_file_info*) {
  const bool size = (changes & FUSE_SET_ATTR_SIZE) != 0;
  reject(request, node, size ? "truncate" : "change attributes of");
}

void mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t, dev_t) {
  reject(request, parent, fmt::format("make '{}' in", name), name);
}

void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t) {
  reject(request, parent, fmt::format("make directory '{}' in", name), name);
}

void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  reject(request, parent, fmt::format("remove '{}' from", name), name);
}

void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  reject(request, parent, fmt::format("remove directory '{}' from", name), name);
}

void symlink(fuse_req_t request, const char*, fuse_ino_t parent, const char* name) {
  reject(request, parent, fmt::format("make symbolic link '{}' in", name), name);
}

void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t, const char* to,
            unsigned) {
  reject(request, parent, fmt::format("rename '{}' to '{}' in", name, to), name);
}

void link(fuse_req_t request, fuse_ino_t node, fuse_ino_t, const char* name) {
  reject(request, node, fmt::format("make hard link '{}' of", name));
}

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t, fuse_file_info*) {
  reject(request, parent, fmt::format("create '{}' in", name), name);
}

void tmpfile(fuse_req_t request, fuse_ino_t parent, mode_t, fuse_file_info*) {
  reject(request, parent, "create a temporary file in");
}

void setxattr(fuse_req_t request, fuse_ino_t node, const char* name, const char*, size_t, int) {
  reject(request, node, fmt::format("set attribute '{}' of", name));
}

void removexattr(fuse_req_t request, fuse_ino_t node, const char* name) {
  reject(request, node, fmt::format("remove attribute '{}' of", name));
}

}  // namespace

void add_rejected_operations(fuse_lowlevel_ops& operations) {
  operations.setattr = &setattr;
  operations.mknod = &mknod;
  operations.mkdir = &mkdir;
  operations.unlink = &unlink;
  operations.rmdir = &rmdir;
  operations.symlink = &symlink;
  operations.rename = &rename;
  operations.link = &link;
  operations.create = &create;
  operations.tmpfile = &tmpfile;
  operations.setxattr = &setxattr;
  operations.removexattr = &removexattr;
}

}  // namespace leat
