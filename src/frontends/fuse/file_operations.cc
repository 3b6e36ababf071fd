// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include "frontends/fuse/operations.h"
#include "frontends/fuse/replies.h"
#include "frontends/fuse/request_id.h"
#include "frontends/fuse/sched_policy_tuner.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter opens_read("leat_fuse_opens_total", "Opens of files", R"(mode="read")");
Counter opens_passthrough("leat_fuse_opens_total", "Opens of files", R"(mode="passthrough")");
Counter reads_inline("leat_fuse_reads_total", "READ requests", R"(path="inline")");
Counter reads_async("leat_fuse_reads_total", "READ requests", R"(path="async")");

}  // namespace

void open_in_kernel(FuseServerState& server, const std::shared_ptr<OpenFile>& file,
                    fuse_file_info& info) {
  const OpenFiles::BackingId backing = server.files.open(file);
  if (backing != 0) {
    info.backing_id = backing;
    server.records.record_backing(backing);
    opens_passthrough.add();
  } else {
    // A node is one version, or all its writes go through these pages, so they stay valid. Direct
    // writes do not; the kernel drops the pages when they begin.
    info.keep_cache = 1;
    opens_read.add();
  }
}

namespace {

void reply_open(FuseServerState& server, fuse_req_t request, uint64_t unique, NodeId node,
                fuse_file_info info, Result<std::shared_ptr<OpenFile>> opened) {
  if (!opened) return reply_error(server, request, node, opened.error());
  const std::shared_ptr<OpenFile> file = *std::move(opened);
  open_in_kernel(server, file, info);
  const TakeoverRecords::InflightOp inflight(server.records, unique,
                                             TakeoverRecords::Operation::kOpen, node);
  // A file that is only read has nothing to flush.
  const bool reads = (info.flags & O_ACCMODE) == O_RDONLY;
  info.noflush = reads && server.uses(FuseFeature::kNoFlush) ? 1 : 0;
  if (fuse_reply_open(request, &info) == 0) return;
  // The opener has ended and sends no RELEASE.
  server.files.release(node);
  end_open(server, file);
}

Task<> open_async(std::unique_ptr<PendingRequest> request, FuseServerState* server, NodeId node,
                  fuse_file_info info) {
  Result<std::shared_ptr<OpenFile>> opened =
      co_await server->file_system.open(request->context(), node, info.flags);
  if (!opened) request->set_failure(opened.error());
  const uint64_t unique = request->unique();
  reply_open(*server, request->answer(), unique, node, info, std::move(opened));
}

void open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  FuseServerState& server = FuseServerState::of(request);
  if (server.options.io_uring) SchedPolicyTuner::of_this_thread().request_done();
  // After one ENOSYS the kernel sends no more OPENs.
  if (server.no_open) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  const RequestLabel label{.kind = RequestKind::kOpen, .node = node};
  const InlineTrace trace;
  if (auto opened = server.file_system.try_open(node, info->flags)) {
    trace.finish(server.file_system, label);
    return reply_open(server, request, current_unique, node, *info, *std::move(opened));
  }
  server.executor.spawn(open_async(server.add_pending(request, label), &server, node, *info));
}

Task<> read_async(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                  std::shared_ptr<OpenFile> file, uint64_t offset, uint64_t size) {
  Result<Bytes> bytes = co_await file->read(request->context(), offset, size);
  if (bytes) {
    reply_bytes(request->answer(), *bytes);
  } else {
    request->set_failure(bytes.error());
    reply_error(*server, request->answer(), file->node(), bytes.error());
  }
}

// Reads a local file that was not opened.
Task<> read_unopened_async(std::unique_ptr<PendingRequest> request, FuseServerState* server,
                           NodeId node, uint64_t offset, uint64_t size) {
  Result<std::shared_ptr<OpenFile>> file =
      co_await server->file_system.open(request->context(), node, O_RDONLY);
  if (!file) {
    request->set_failure(file.error());
    reply_error(*server, request->answer(), node, file.error());
    co_return;
  }
  std::shared_ptr<OpenFile> cached = server->no_open_files.add(*std::move(file));
  co_await read_async(std::move(request), server, std::move(cached), offset, size);
}

// Returns the file of a READ without OPEN: with no_open, or if a predecessor could not record the
// open. Null: it must be opened.
std::shared_ptr<OpenFile> find_file(FuseServerState& server, NodeId node) {
  if (!server.no_open) {
    if (std::shared_ptr<OpenFile> file = server.files.find(node)) return file;
  }
  if (std::shared_ptr<OpenFile> file = server.no_open_files.find(node)) return file;
  std::shared_ptr<OpenFile> file = server.file_system.open_cached_version(node);
  return file ? server.no_open_files.add(std::move(file)) : nullptr;
}

void read(fuse_req_t request, fuse_ino_t node, size_t size, off_t at, fuse_file_info* info) {
  FuseServerState& server = FuseServerState::of(request);
  const auto offset = static_cast<uint64_t>(at);
  const RequestLabel label{
      .kind = RequestKind::kRead, .node = node, .offset = offset, .bytes = size};
  const InlineTrace trace;
  std::shared_ptr<OpenFile> file = find_file(server, node);
  if (!file) {
    return server.executor.spawn(
        read_unopened_async(server.add_pending(request, label), &server, node, offset, size));
  }
  // Without a page cache in between, the program would see the error. Direct reads carry the lock
  // owner, even without the flag (a loop device).
  const bool direct = (info->flags & O_DIRECT) != 0 || info->lock_owner != 0;
  if (!direct && file->rejects_fault_around(offset, size)) {
    fuse_reply_err(request, EAGAIN);
    return;
  }
  if (auto bytes = file->try_read(offset, size)) {
    reads_inline.add();
    trace.finish(server.file_system, label);
    return reply_bytes(request, *bytes);
  }
  reads_async.add();
  server.executor.spawn(
      read_async(server.add_pending(request, label), &server, std::move(file), offset, size));
}

void release(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  FuseServerState& server = FuseServerState::of(request);
  const bool passed_through = server.records.enabled() && server.files.passthrough_files() > 0;
  const OpenFiles::BackingId backing = passed_through ? server.files.backing_of(node) : 0;
  const TakeoverRecords::InflightOp inflight(server.records, current_unique,
                                             TakeoverRecords::Operation::kRelease, node, backing);
  if (server.records.release_once(current_unique)) {
    const std::shared_ptr<OpenFile> file = server.files.find(node);
    server.files.release(node);
    if (file) end_open(server, file);
  }
  fuse_reply_err(request, 0);
}

}  // namespace

// Without `flush`: the first ENOSYS makes the kernel skip it on close.
void add_file_operations(fuse_lowlevel_ops& operations) {
  operations.open = &open;
  operations.read = &read;
  operations.release = &release;
}

bool undo_unanswered(FuseServerState& server, uint64_t unique) {
  const std::optional<TakeoverRecords::UnansweredOp> op = server.records.take_unanswered(unique);
  if (!op) return false;
  switch (op->operation) {
    case TakeoverRecords::Operation::kLookup:
      server.file_system.forget(op->node, 1);
      return false;
    case TakeoverRecords::Operation::kOpen:
      server.files.release(op->node);
      return false;
    case TakeoverRecords::Operation::kRelease:
      return true;
    case TakeoverRecords::Operation::kNone:
      return false;
  }
  return false;
}

}  // namespace leat
