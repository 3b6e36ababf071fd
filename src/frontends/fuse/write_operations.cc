// SPDX-License-Identifier: Apache-2.0
// Operations of a mount that takes writes (FileSystem::changes). Each runs as a task, since it may
// wait for a disk or a store.
#include <fcntl.h>
#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "frontends/fuse/operations.h"
#include "frontends/fuse/replies.h"
#include "frontends/fuse/request_id.h"
#include "model/timespec.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// As local file systems have it; listings leave longer names out.
constexpr size_t kNewNameBytesMax = 255;

Counter writes_total("leat_fuse_writes_total", "WRITE requests");
Counter written_bytes("leat_fuse_written_bytes_total", "Bytes of WRITE requests");

}  // namespace

NewName new_name(fuse_req_t request, mode_t mode) {
  const fuse_ctx* caller = fuse_req_ctx(request);
  return {.mode = mode & 07777, .uid = caller->uid, .gid = caller->gid};
}

NamespaceChanges* changes_of(fuse_req_t request, NodeId node, std::string_view operation,
                             std::string_view name) {
  FuseServerState& server = FuseServerState::of(request);
  if (name.size() > kNewNameBytesMax) {
    fuse_reply_err(request, ENAMETOOLONG);
    return nullptr;
  }
  NamespaceChanges* const changes = server.file_system.changes(node);
  if (changes == nullptr) {
    reply_error(server, request, node, server.file_system.reject_change(node, operation, name));
  }
  return changes;
}

namespace {

Task<> answer_result(std::unique_ptr<PendingRequest> request, FuseServerState* server, NodeId node,
                     std::string name, std::function<Task<Result<>>(Context)> operation) {
  Result<> done = co_await operation(request->context());
  if (!done) {
    if (!name.empty()) server->forget_name(node, name, done.error().code());
    request->set_failure(done.error());
    reply_error(*server, request->answer(), node, done.error(), name);
    co_return;
  }
  fuse_reply_err(request->answer(), 0);
}

}  // namespace

void spawn_result(fuse_req_t request, NodeId node, std::string_view name, RequestKind kind,
                  std::function<Task<Result<>>(Context)> operation) {
  FuseServerState& server = FuseServerState::of(request);
  const RequestLabel label{.kind = kind, .node = node, .name = name};
  server.executor.spawn(answer_result(server.add_pending(request, label), &server, node,
                                      std::string(name), std::move(operation)));
}

// ---- files

namespace {

Task<> close_task(Gate::Holder, std::shared_ptr<OpenFile> file) {
  Result<> closed = co_await file->writable()->close(Context::background());
  if (!closed) log::error("{}", closed.error().to_string());
}

using CreateOperation = std::function<Task<Result<CreatedFile>>(Context)>;

Task<> answer_create(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                     NodeId parent, std::string name, fuse_file_info info,
                     CreateOperation operation) {
  Result<CreatedFile> created = co_await operation(request->context());
  if (!created) {
    server->forget_name(parent, name, created.error().code());
    request->set_failure(created.error());
    reply_error(*server, request->answer(), parent, created.error(), name);
    co_return;
  }
  open_in_kernel(*server, created->file, info);
  const fuse_entry_param entry = to_entry(created->attributes);
  if (fuse_reply_create(request->answer(), &entry, &info) == 0) co_return;
  server->files.release(entry.ino);
  end_open(*server, std::move(created->file));
  server->file_system.forget(entry.ino, 1);
}

}  // namespace

void spawn_create(fuse_req_t request, NodeId parent, std::string_view name,
                  const fuse_file_info& info, CreateOperation operation) {
  FuseServerState& server = FuseServerState::of(request);
  const RequestLabel label{.kind = RequestKind::kChange, .node = parent, .name = name};
  server.executor.spawn(answer_create(server.add_pending(request, label), &server, parent,
                                      std::string(name), info, std::move(operation)));
}

namespace {

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  NamespaceChanges* const changes =
      changes_of(request, parent, fmt::format("create '{}' in", name), name);
  if (changes == nullptr) return;
  spawn_create(request, parent, name, *info,
               [changes, parent, wanted = std::string(name), as = new_name(request, mode),
                flags = info->flags](Context context) {
                 return changes->create(std::move(context), parent, wanted, as, flags);
               });
}

Task<> write_async(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                   std::shared_ptr<OpenFile> file, uint64_t offset, Bytes data) {
  const size_t size = data.size();
  Result<> written = co_await file->writable()->write(request->context(), offset, std::move(data));
  if (!written) {
    request->set_failure(written.error());
    reply_error(*server, request->answer(), file->node(), written.error());
    co_return;
  }
  written_bytes.add(size);
  fuse_reply_write(request->answer(), size);
}

// Returns null, after a reply, if the node is not open.
std::shared_ptr<OpenFile> written_file(fuse_req_t request, NodeId node) {
  std::shared_ptr<OpenFile> file = FuseServerState::of(request).files.find(node);
  if (file && file->writable() != nullptr) return file;
  fuse_reply_err(request, EBADF);
  return nullptr;
}

void write(fuse_req_t request, fuse_ino_t node, const char* bytes, size_t size, off_t at,
           fuse_file_info*) {
  FuseServerState& server = FuseServerState::of(request);
  std::shared_ptr<OpenFile> file = written_file(request, node);
  if (!file) return;
  writes_total.add();
  // The request's buffer is used again when this function returns.
  Buffer copy(size);
  std::memcpy(copy.data(), bytes, size);
  const auto offset = static_cast<uint64_t>(at);
  const RequestLabel label{
      .kind = RequestKind::kWrite, .node = node, .offset = offset, .bytes = size};
  server.executor.spawn(write_async(server.add_pending(request, label), &server, std::move(file),
                                    offset, Bytes(std::move(copy))));
}

using Saving = Task<Result<>> (WritableFile::*)(Context);

void save(fuse_req_t request, NodeId node, Saving saving) {
  std::shared_ptr<OpenFile> file = written_file(request, node);
  if (!file) return;
  spawn_result(request, node, {}, RequestKind::kSave, [file, saving](Context context) {
    return (file->writable()->*saving)(std::move(context));
  });
}

void flush(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  save(request, node, &WritableFile::flush);
}

void fsync(fuse_req_t request, fuse_ino_t node, int, fuse_file_info*) {
  save(request, node, &WritableFile::synchronise);
}

// The store has each change of a name before the change is answered.
void fsyncdir(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  fuse_reply_err(request, 0);
}

void fallocate(fuse_req_t request, fuse_ino_t node, int mode, off_t offset, off_t size,
               fuse_file_info*) {
  std::shared_ptr<OpenFile> file = written_file(request, node);
  if (!file) return;
  spawn_result(request, node, {}, RequestKind::kWrite, [=](Context context) {
    return file->writable()->allocate(std::move(context), mode, static_cast<uint64_t>(offset),
                                      static_cast<uint64_t>(size));
  });
}

// ---- names

using EntryOperation = std::function<Task<Result<NodeAttributes>>(Context)>;

// Replies to a request for a new name.
Task<> answer_entry(std::unique_ptr<PendingRequest> request, FuseServerState* server, NodeId parent,
                    std::string name, EntryOperation operation) {
  Result<NodeAttributes> made = co_await operation(request->context());
  if (!made) {
    server->forget_name(parent, name, made.error().code());
    request->set_failure(made.error());
  }
  const uint64_t unique = request->unique();
  if (!made && made.error().code() == StatusCode::kUnsupported) {
    server->file_system.record_error(parent, name, made.error());
    if (server->log_limiter.admit()) log::info("{}", made.error().to_string());
    fuse_reply_err(request->answer(), EPERM);
    co_return;
  }
  reply_entry(*server, request->answer(), unique, parent, name, made, Clock::duration::zero());
}

}  // namespace

void spawn_entry(fuse_req_t request, NodeId parent, std::string_view name,
                 EntryOperation operation) {
  FuseServerState& server = FuseServerState::of(request);
  const RequestLabel label{.kind = RequestKind::kChange, .node = parent, .name = name};
  server.executor.spawn(answer_entry(server.add_pending(request, label), &server, parent,
                                     std::string(name), std::move(operation)));
}

namespace {

void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  NamespaceChanges* const changes =
      changes_of(request, parent, fmt::format("make directory '{}' in", name), name);
  if (changes == nullptr) return;
  spawn_entry(
      request, parent, name,
      [changes, parent, wanted = std::string(name), as = new_name(request, mode)](Context context) {
        return changes->make_directory(std::move(context), parent, wanted, as);
      });
}

// A regular file; the kernel sends it for mknod(2).
Task<Result<NodeAttributes>> make_file(Context context, NamespaceChanges* changes, NodeId parent,
                                       std::string name, NewName as) {
  Result<CreatedFile> created =
      co_await changes->create(context, parent, name, as, O_EXCL | O_CREAT | O_WRONLY);
  if (!created) co_return Error(created.error());
  Result<> closed = co_await created->file->writable()->close(Context::background());
  if (!closed) co_return Error(closed.error());
  co_return created->attributes;
}

void mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  NamespaceChanges* const changes =
      changes_of(request, parent, fmt::format("create '{}' in", name), name);
  if (changes == nullptr) return;
  const NewName as = new_name(request, mode);
  if (!S_ISREG(mode)) {
    return make_special_file(request, *changes, parent, name, as, mode & S_IFMT, device);
  }
  spawn_entry(request, parent, name,
              [changes, parent, wanted = std::string(name), as](Context context) {
                return make_file(std::move(context), changes, parent, wanted, as);
              });
}

using Removal = Task<Result<>> (NamespaceChanges::*)(Context, NodeId, std::string);

void remove(fuse_req_t request, NodeId parent, std::string_view name, std::string_view operation,
            Removal removal) {
  NamespaceChanges* const changes = changes_of(request, parent, operation, name);
  if (changes == nullptr) return;
  spawn_result(request, parent, name, RequestKind::kChange,
               [changes, removal, parent, wanted = std::string(name)](Context context) {
                 return (changes->*removal)(std::move(context), parent, wanted);
               });
}

void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  remove(request, parent, name, fmt::format("remove '{}' from", name),
         &NamespaceChanges::remove_file);
}

void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  remove(request, parent, name, fmt::format("remove directory '{}' from", name),
         &NamespaceChanges::remove_directory);
}

Task<Result<>> rename_names(Context context, FuseServerState* server, NamespaceChanges* changes,
                            RenameOp op) {
  Result<> renamed = co_await changes->rename(std::move(context), op);
  if (!renamed) server->forget_name(op.new_parent, op.new_name, renamed.error().code());
  co_return renamed;
}

void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* to, unsigned flags) {
  NamespaceChanges* const changes =
      changes_of(request, parent, fmt::format("rename '{}' to '{}' in", name, to), name);
  if (changes == nullptr) return;
  if (std::strlen(to) > kNewNameBytesMax) {
    fuse_reply_err(request, ENAMETOOLONG);
    return;
  }
  if (flags != 0 && flags != RENAME_NOREPLACE && flags != RENAME_EXCHANGE) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  RenameOp op{.parent = parent,
              .name = name,
              .new_parent = new_parent,
              .new_name = to,
              .no_replace = flags == RENAME_NOREPLACE,
              .exchange = flags == RENAME_EXCHANGE};
  spawn_result(request, parent, name, RequestKind::kChange,
               [server = &FuseServerState::of(request), changes, op](Context context) {
                 return rename_names(std::move(context), server, changes, op);
               });
}

AttributeChange change_of(const struct stat& wanted, int fields) {
  const auto now =
      std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  AttributeChange change;
  if ((fields & FUSE_SET_ATTR_SIZE) != 0) change.size = static_cast<uint64_t>(wanted.st_size);
  if ((fields & FUSE_SET_ATTR_MODE) != 0) change.mode = wanted.st_mode & 07777;
  if ((fields & FUSE_SET_ATTR_UID) != 0) change.uid = wanted.st_uid;
  if ((fields & FUSE_SET_ATTR_GID) != 0) change.gid = wanted.st_gid;
  if ((fields & FUSE_SET_ATTR_ATIME) != 0) change.atime = to_wall_time(wanted.st_atim);
  if ((fields & FUSE_SET_ATTR_MTIME) != 0) change.mtime = to_wall_time(wanted.st_mtim);
  if ((fields & FUSE_SET_ATTR_ATIME_NOW) != 0) change.atime = now;
  if ((fields & FUSE_SET_ATTR_MTIME_NOW) != 0) change.mtime = now;
  return change;
}

Task<> setattr_async(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                     NamespaceChanges* changes, NodeId node, AttributeChange change) {
  Result<NodeAttributes> changed =
      co_await changes->set_attributes(request->context(), node, change);
  if (!changed) request->set_failure(changed.error());
  reply_attributes(*server, request->answer(), node, changed);
}

void setattr(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int fields,
             fuse_file_info*) {
  FuseServerState& server = FuseServerState::of(request);
  NamespaceChanges* const changes = changes_of(request, node, "change attributes of");
  if (changes == nullptr) return;
  const RequestLabel label{.kind = RequestKind::kChange, .node = node};
  server.executor.spawn(setattr_async(server.add_pending(request, label), &server, changes, node,
                                      change_of(*wanted, fields)));
}

void symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  NamespaceChanges* const changes =
      changes_of(request, parent, fmt::format("make symbolic link '{}' in", name), name);
  if (changes == nullptr) return;
  spawn_entry(request, parent, name,
              [changes, parent, wanted = std::string(name), to = std::string(target),
               as = new_name(request, 0777)](Context context) {
                return changes->make_symlink(std::move(context), parent, wanted, to, as);
              });
}

Task<> readlink_async(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                      NamespaceChanges* changes, NodeId node) {
  const Result<std::string> target = co_await changes->read_symlink(request->context(), node);
  if (!target) {
    request->set_failure(target.error());
    reply_error(*server, request->answer(), node, target.error());
    co_return;
  }
  fuse_reply_readlink(request->answer(), target->c_str());
}

void readlink(fuse_req_t request, fuse_ino_t node) {
  FuseServerState& server = FuseServerState::of(request);
  NamespaceChanges* const changes = changes_of(request, node, "read as a symbolic link");
  if (changes == nullptr) return;
  const RequestLabel label{.kind = RequestKind::kLookup, .node = node};
  server.executor.spawn(readlink_async(server.add_pending(request, label), &server, changes, node));
}

}  // namespace

void end_open(FuseServerState& server, std::shared_ptr<OpenFile> file) {
  WritableFile* const written = file->writable();
  if (written == nullptr || written->try_close()) return;
  if (auto token = server.closing.enter()) {
    server.executor.spawn(close_task(*std::move(token), std::move(file)));
  }
}

void add_write_operations(fuse_lowlevel_ops& operations) {
  operations.create = &create;
  operations.write = &write;
  operations.flush = &flush;
  operations.fsync = &fsync;
  operations.fsyncdir = &fsyncdir;
  operations.fallocate = &fallocate;
  operations.mkdir = &mkdir;
  operations.mknod = &mknod;
  operations.unlink = &unlink;
  operations.rmdir = &rmdir;
  operations.rename = &rename;
  operations.setattr = &setattr;
  operations.symlink = &symlink;
  operations.readlink = &readlink;
  add_posix_operations(operations);
}

}  // namespace leat
