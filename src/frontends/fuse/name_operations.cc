// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>

#include "frontends/fuse/error_numbers.h"
#include "frontends/fuse/operations.h"
#include "frontends/fuse/replies.h"
#include "frontends/fuse/request_id.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter lookups_inline("leat_fuse_lookups_total", "LOOKUP requests", R"(path="inline")");
Counter lookups_async("leat_fuse_lookups_total", "LOOKUP requests", R"(path="async")");
Counter directories_opened("leat_fuse_opendirs_total", "OPENDIR requests");
Counter directories_read(
    "leat_fuse_readdirs_total",
    "READDIR and READDIRPLUS requests; listings cached by the kernel cause none");

// As local file systems have it.
constexpr size_t kFileNameBytesMax = 255;
constexpr ino_t kUnknownInode = 0xffffffff;  // FUSE_UNKNOWN_INO

// ---- lookup, forget, getattr

Task<> lookup_async(std::unique_ptr<PendingRequest> request, FuseServerState* server, NodeId parent,
                    std::string name) {
  // The store is read after this moment, so a missing name is at most this old.
  const Clock::time_point asked = Clock::now();
  FileSystem& files = server->file_system;
  Result<NodeAttributes> found = co_await files.lookup(request->context(), parent, name);
  Clock::duration missing_for{};
  if (!found) {
    missing_for = files.negative_ttl(parent, name) - (Clock::now() - asked);
    request->set_failure(found.error());
  }
  const uint64_t unique = request->unique();
  reply_entry(*server, request->answer(), unique, parent, name, found, missing_for);
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  FuseServerState& server = FuseServerState::of(request);
  // Programs that write expect the error of a local directory; others see no such name.
  const bool too_long = std::strlen(name) > kFileNameBytesMax;
  if (too_long && server.file_system.changes(parent) != nullptr) {
    fuse_reply_err(request, ENAMETOOLONG);
    return;
  }
  const RequestLabel label{.kind = RequestKind::kLookup, .node = parent, .name = name};
  const InlineTrace trace;
  if (auto found = server.file_system.try_lookup(parent, name)) {
    lookups_inline.add();
    trace.finish(server.file_system, label);
    // The age of a missing name in memory is unknown here, so the kernel must not cache it.
    return reply_entry(server, request, current_unique, parent, name, *found,
                       Clock::duration::zero());
  }
  lookups_async.add();
  server.executor.spawn(lookup_async(server.add_pending(request, label), &server, parent, name));
}

void forget(fuse_req_t request, fuse_ino_t node, uint64_t count) {
  FuseServerState::of(request).file_system.forget(node, count);
  fuse_reply_none(request);
}

void forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  FileSystem& files = FuseServerState::of(request).file_system;
  for (size_t i = 0; i < count; ++i) files.forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

Task<> getattr_async(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                     NodeId node) {
  Result<NodeAttributes> attributes =
      co_await server->file_system.attributes(request->context(), node);
  if (!attributes) request->set_failure(attributes.error());
  reply_attributes(*server, request->answer(), node, attributes);
}

void getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  FuseServerState& server = FuseServerState::of(request);
  if (auto known = server.file_system.try_attributes(node)) {
    return reply_attributes(server, request, node, *known);
  }
  const RequestLabel label{.kind = RequestKind::kAttributes, .node = node};
  server.executor.spawn(getattr_async(server.add_pending(request, label), &server, node));
}

// ---- directories

Task<> opendir_async(std::unique_ptr<PendingRequest> request, FuseServerState* server, NodeId node,
                     fuse_file_info info) {
  Result<std::shared_ptr<OpenDirectory>> opened =
      co_await server->file_system.open_directory(request->context(), node);
  if (!opened) {
    request->set_failure(opened.error());
    reply_error(*server, request->answer(), node, opened.error());
    co_return;
  }
  const bool keeps = server->uses(FuseFeature::kKeptListings);
  if (keeps && (*opened)->valid_for() == kForever) info.cache_readdir = info.keep_cache = 1;
  info.fh = server->directories.add(*std::move(opened));
  if (fuse_reply_open(request->answer(), &info) != 0) server->directories.remove(info.fh);
}

void opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  FuseServerState& server = FuseServerState::of(request);
  directories_opened.add();
  const RequestLabel label{.kind = RequestKind::kList, .node = node};
  server.executor.spawn(opendir_async(server.add_pending(request, label), &server, node, *info));
}

void releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  FuseServerState::of(request).directories.remove(info->fh);
  fuse_reply_err(request, 0);
}

// Each entry is an inode in the kernel and a node here, 1.5 KB together, until the kernel forgets
// it. A reader of ten million names mostly needs only the names. The kernel looks up the others on
// demand.
constexpr uint64_t kDescribedMax = 100'000;

// One answer to READDIR or READDIRPLUS: as many entries as fit. Offset 0 is ".", 1 is "..", from 2
// on positions of the listing.
class DirectoryAnswer {
 public:
  DirectoryAnswer(FuseServerState& server, fuse_req_t request, DirectoryHandle& handle,
                  OpenDirectory& directory, size_t size, bool plus)
      : server_(server),
        request_(request),
        handle_(handle),
        directory_(directory),
        size_(size),
        plus_(plus),
        buffer_(new char[size]) {}

  void fill_and_reply(uint64_t offset) {
    add_all(offset);
    if (!last_name_.empty()) handle_.record_progress(last_next_, last_name_);
    if (fuse_reply_buf(request_, buffer_.get(), used_) == 0) return handle_.clear_resumed();
    for (NodeId node : adopted_) server_.file_system.forget(node, 1);
  }

 private:
  void add_all(uint64_t offset) {
    for (; offset < 2; ++offset) {
      if (!add_link(offset == 0 ? "." : "..", offset + 1)) return;
    }
    const std::optional<std::string> after = handle_.resume_after(offset);
    Listing::Cursor cursor = after ? directory_.after(*after) : directory_.from(offset - 2);
    while (cursor.next()) {
      const uint64_t next = cursor.position() + 2;
      if (!add(cursor, next)) break;
      if (!server_.records.enabled()) continue;
      last_next_ = next;
      last_name_ = cursor.view().name;
    }
  }

  // Returns false if it does not fit.
  bool add(const Listing::Cursor& cursor, uint64_t next) {
    const NameView& view = cursor.view();
    const std::string name(view.name);
    if (name.empty() || name.size() > kNameBytesMax) {
      log::debug("a name of {} bytes in node {} cannot be shown", name.size(), directory_.node());
      return true;
    }
    // A file of a store that keeps attributes may be a symbolic link.
    const mode_t file = server_.file_system.changes(kRootNode) == nullptr ? S_IFREG : 0;
    const mode_t kind = view.is_directory() ? S_IFDIR : file;
    if (!plus_) return add_plain(name.c_str(), kind, next);
    if (handle_.described >= kDescribedMax)
      return add_bare(name.c_str(), kUnknownInode, kind, next);
    if (used_ + fuse_add_direntry_plus(request_, nullptr, 0, name.c_str(), nullptr, 0) > size_) {
      return false;  // before it is adopted
    }
    const NodeAttributes attributes =
        server_.file_system.lookup_from_listing(directory_.node(), cursor.entry());
    if (attributes.node == 0) return add_bare(name.c_str(), kUnknownInode, kind, next);
    adopted_.push_back(attributes.node);
    ++handle_.described;
    const fuse_entry_param entry = to_entry(attributes);
    used_ += fuse_add_direntry_plus(request_, buffer_.get() + used_, size_ - used_, name.c_str(),
                                    &entry, static_cast<off_t>(next));
    return true;
  }

  bool add_link(const char* name, uint64_t next) {
    if (!plus_) return add_plain(name, S_IFDIR, next);
    return add_bare(name, directory_.node(), S_IFDIR, next);
  }

  // Node 0: not a lookup; the kernel looks the name up on demand.
  bool add_bare(const char* name, ino_t inode, mode_t kind, uint64_t next) {
    fuse_entry_param entry{};
    entry.attr.st_ino = inode;
    entry.attr.st_mode = kind;
    const size_t bytes = fuse_add_direntry_plus(request_, buffer_.get() + used_, size_ - used_,
                                                name, &entry, static_cast<off_t>(next));
    return keep(bytes);
  }

  bool add_plain(const char* name, mode_t kind, uint64_t next) {
    struct stat attributes{};
    attributes.st_ino = kUnknownInode;
    attributes.st_mode = kind;
    const size_t bytes = fuse_add_direntry(request_, buffer_.get() + used_, size_ - used_, name,
                                           &attributes, static_cast<off_t>(next));
    return keep(bytes);
  }

  bool keep(size_t bytes) {
    if (bytes > size_ - used_) return false;  // libfuse wrote nothing
    used_ += bytes;
    return true;
  }

  FuseServerState& server_;
  fuse_req_t request_;
  DirectoryHandle& handle_;
  OpenDirectory& directory_;
  const size_t size_;
  const bool plus_;
  size_t used_ = 0;
  std::unique_ptr<char[]> buffer_;
  std::vector<NodeId> adopted_;
  // The last name added, for a successor.
  uint64_t last_next_ = 0;
  std::string last_name_;
};

// The listing differs in a successor, and after a change of the mount.
Task<> reopen_and_read(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                       std::shared_ptr<DirectoryHandle> handle, size_t size, uint64_t offset,
                       bool plus) {
  const NodeId node = handle->node();
  Result<std::shared_ptr<OpenDirectory>> opened =
      co_await server->file_system.open_directory(request->context(), node);
  if (!opened) {
    request->set_failure(opened.error());
    reply_error(*server, request->answer(), node, opened.error());
    co_return;
  }
  const std::shared_ptr<OpenDirectory> directory = handle->set_directory(*std::move(opened));
  DirectoryAnswer answer(*server, request->answer(), *handle, *directory, size, plus);
  answer.fill_and_reply(offset);
}

void read_directory(fuse_req_t request, NodeId node, size_t size, off_t at, fuse_file_info* info,
                    bool plus) {
  FuseServerState& server = FuseServerState::of(request);
  directories_read.add();
  const auto offset = static_cast<uint64_t>(at);
  std::shared_ptr<DirectoryHandle> handle = server.directories.find(info->fh);
  // A handle that a predecessor could not record has only the offset.
  if (!handle) handle = std::make_shared<DirectoryHandle>(node, nullptr, nullptr);
  // The kernel may cache a read from offset 0, so it must use the current listing.
  const std::shared_ptr<OpenDirectory> directory = handle->directory();
  if (directory && (offset != 0 || directory->is_latest())) {
    DirectoryAnswer answer(server, request, *handle, *directory, size, plus);
    return answer.fill_and_reply(offset);
  }
  const RequestLabel label{.kind = RequestKind::kList, .node = node};
  server.executor.spawn(reopen_and_read(server.add_pending(request, label), &server,
                                        std::move(handle), size, offset, plus));
}

void readdir(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info) {
  read_directory(request, node, size, offset, info, false);
}

void readdirplus(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset,
                 fuse_file_info* info) {
  read_directory(request, node, size, offset, info, true);
}

// ---- other operations

// A bucket has no size, and monitoring must not mistake a full cache for a full disk. So the
// numbers are those of an empty file system of 1 PiB, as with other object-store mounts. `leat
// status` and the metrics show the cache's usage.
void statfs(fuse_req_t request, fuse_ino_t) {
  constexpr uint64_t kBlock = 4096;
  constexpr uint64_t kCapacity = uint64_t{1} << 50;
  constexpr uint64_t kInodes = uint64_t{1} << 40;
  struct statvfs out{};
  out.f_bsize = out.f_frsize = kBlock;
  out.f_blocks = out.f_bfree = out.f_bavail = kCapacity / kBlock;
  out.f_files = out.f_ffree = out.f_favail = kInodes;
  out.f_namemax = 255;
  fuse_reply_statfs(request, &out);
}

void getxattr(fuse_req_t request, fuse_ino_t node, const char* name, size_t size) {
  if (answer_attribute(request, node, name, size)) return;
  const Result<std::string> value =
      FuseServerState::of(request).file_system.attribute_value(node, name);
  if (value) return reply_attribute(request, *value, size);
  const StatusCode code = value.error().code();
  fuse_reply_err(request, code == StatusCode::kNotFound ? ENODATA : to_errno(code));
}

void listxattr(fuse_req_t request, fuse_ino_t node, size_t size) {
  FileSystem& files = FuseServerState::of(request).file_system;
  answer_attribute_names(request, node, files.attribute_names(node), size);
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& operations) {
  operations.lookup = &lookup;
  operations.forget = &forget;
  operations.forget_multi = &forget_multi;
  operations.getattr = &getattr;
  operations.opendir = &opendir;
  operations.readdir = &readdir;
  operations.readdirplus = &readdirplus;
  operations.releasedir = &releasedir;
  operations.statfs = &statfs;
  operations.getxattr = &getxattr;
  operations.listxattr = &listxattr;
}

}  // namespace leat
