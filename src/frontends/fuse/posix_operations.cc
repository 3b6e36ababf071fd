// SPDX-License-Identifier: Apache-2.0
// Operations that only some stores can do (PosixChanges), and files without a name.
#include <fmt/format.h>

#include <cerrno>
#include <functional>

#include "frontends/fuse/error_numbers.h"
#include "frontends/fuse/operations.h"
#include "frontends/fuse/replies.h"

namespace leat {
namespace {

constexpr std::string_view kUserPrefix = "user.";
// Attributes of this prefix are ours.
constexpr std::string_view kOwnPrefix = "user.leat.";

void link(fuse_req_t request, fuse_ino_t node, fuse_ino_t parent, const char* name) {
  NamespaceChanges* const changes =
      changes_of(request, parent, fmt::format("make hard link '{}' in", name), name);
  if (changes == nullptr) return;
  spawn_entry(request, parent, name,
              [changes, node, parent, wanted = std::string(name)](Context context) {
                return changes->posix().link(std::move(context), node, parent, wanted);
              });
}

void tmpfile(fuse_req_t request, fuse_ino_t parent, mode_t mode, fuse_file_info* info) {
  NamespaceChanges* const changes = changes_of(request, parent, "create a file without a name in");
  if (changes == nullptr) return;
  spawn_create(request, parent, {}, *info,
               [changes, parent, as = new_name(request, mode)](Context context) {
                 return changes->posix().create_unnamed(std::move(context), parent, as);
               });
}

// ---- extended attributes

bool is_kept(std::string_view name) {
  return name.starts_with(kUserPrefix) && !name.starts_with(kOwnPrefix);
}

// Programs try attributes, so a failure is not logged.
int attribute_error(const Status& status) {
  return status.code() == StatusCode::kNotFound ? ENODATA : to_errno(status.code());
}

Task<> change_attribute(std::unique_ptr<PendingRequest> request,
                        std::function<Task<Result<>>(Context)> change) {
  const Result<> changed = co_await change(request->context());
  if (!changed) request->set_failure(changed.error());
  fuse_reply_err(request->answer(), changed ? 0 : attribute_error(changed.error()));
}

void spawn_attribute_change(fuse_req_t request, NodeId node, std::string_view name,
                            std::function<Task<Result<>>(Context)> change) {
  if (!is_kept(name)) {
    fuse_reply_err(request, EOPNOTSUPP);
    return;
  }
  FuseServerState& server = FuseServerState::of(request);
  const RequestLabel label{.kind = RequestKind::kChange, .node = node};
  server.executor.spawn(change_attribute(server.add_pending(request, label), std::move(change)));
}

void setxattr(fuse_req_t request, fuse_ino_t node, const char* name, const char* value, size_t size,
              int flags) {
  NamespaceChanges* const changes = changes_of(request, node, "set an attribute of");
  if (changes == nullptr) return;
  spawn_attribute_change(request, node, name,
                         [changes, node, wanted = std::string(name),
                          bytes = std::string(value, size), flags](Context context) {
                           return changes->posix().set_attribute(std::move(context), node, wanted,
                                                                 bytes, flags);
                         });
}

void removexattr(fuse_req_t request, fuse_ino_t node, const char* name) {
  NamespaceChanges* const changes = changes_of(request, node, "remove an attribute of");
  if (changes == nullptr) return;
  spawn_attribute_change(
      request, node, name, [changes, node, wanted = std::string(name)](Context context) {
        return changes->posix().remove_attribute(std::move(context), node, wanted);
      });
}

Task<> read_attribute(std::unique_ptr<PendingRequest> request, PosixChanges* posix, NodeId node,
                      std::string name, size_t size) {
  const Result<std::string> value = co_await posix->attribute(request->context(), node, name);
  if (value) {
    reply_attribute(request->answer(), *value, size);
  } else {
    fuse_reply_err(request->answer(), attribute_error(value.error()));
  }
}

void append_name(std::string& names, std::string_view name) {
  names.append(name).push_back('\0');
}

std::string joined(const std::vector<std::string>& all) {
  std::string names;
  for (const std::string& name : all) append_name(names, name);
  return names;
}

// A store without attributes leaves our own.
Task<> list_attributes(std::unique_ptr<PendingRequest> request, PosixChanges* posix, NodeId node,
                       std::string own, size_t size) {
  const Result<std::vector<std::string>> kept =
      co_await posix->attributes(request->context(), node);
  if (kept) {
    for (const std::string& name : *kept) append_name(own, name);
  }
  reply_attribute(request->answer(), own, size);
}

}  // namespace

bool answer_attribute(fuse_req_t request, NodeId node, std::string_view name, size_t size) {
  FuseServerState& server = FuseServerState::of(request);
  NamespaceChanges* const changes = server.file_system.changes(node);
  if (changes == nullptr || !is_kept(name)) return false;
  const RequestLabel label{.kind = RequestKind::kAttributes, .node = node};
  server.executor.spawn(read_attribute(server.add_pending(request, label), &changes->posix(), node,
                                       std::string(name), size));
  return true;
}

void answer_attribute_names(fuse_req_t request, NodeId node, const std::vector<std::string>& own,
                            size_t size) {
  FuseServerState& server = FuseServerState::of(request);
  NamespaceChanges* const changes = server.file_system.changes(node);
  if (changes == nullptr) return reply_attribute(request, joined(own), size);
  const RequestLabel label{.kind = RequestKind::kAttributes, .node = node};
  server.executor.spawn(list_attributes(server.add_pending(request, label), &changes->posix(), node,
                                        joined(own), size));
}

void reply_attribute(fuse_req_t request, std::string_view value, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, value.size());
  } else if (size < value.size()) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, value.data(), value.size());
  }
}

void make_special_file(fuse_req_t request, NamespaceChanges& changes, NodeId parent,
                       std::string name, NewName as, mode_t type, dev_t device) {
  const std::string_view label = name;
  spawn_entry(request, parent, label, [&changes, parent, name, as, type, device](Context context) {
    return changes.posix().make_special(std::move(context), parent, name, as, type, device);
  });
}

void add_posix_operations(fuse_lowlevel_ops& operations) {
  operations.link = &link;
  operations.tmpfile = &tmpfile;
  operations.setxattr = &setxattr;
  operations.removexattr = &removexattr;
}

}  // namespace leat
