// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include "doors/fuse/operations.h"
#include "doors/fuse/replies.h"
#include "doors/fuse/request_mark.h"
#include "doors/fuse/thread_turns.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter opens_read("leat_fuse_opens_total", "Opens of files", R"(mode="read")");
Counter opens_passthrough("leat_fuse_opens_total", "Opens of files", R"(mode="passthrough")");
Counter reads_in_place("leat_fuse_reads_total", "READ requests", R"(answered="in_place")");
Counter reads_waited("leat_fuse_reads_total", "READ requests", R"(answered="waited")");

void reply_open(DoorState& door, fuse_req_t request, uint64_t unique, NodeId node,
                fuse_file_info info, Result<std::shared_ptr<OpenFile>> opened) {
  if (!opened) return reply_error(door, request, node, opened.error());
  const OpenFiles::BackingId backing = door.files.open(*std::move(opened));
  const DoorRecords::Doing doing(door.records, unique, DoorRecords::Deed::kOpen, node);
  if (backing != 0) {
    info.backing_id = backing;
    door.records.note_backing(backing);
    opens_passthrough.add();
  } else {
    info.keep_cache = 1;  // a node is one version, so its pages stay valid
    opens_read.add();
  }
  info.noflush = door.uses(FuseFeature::kNoFlush) ? 1 : 0;
  if (fuse_reply_open(request, &info) == 0) return;
  // The opener is gone and no RELEASE will come.
  door.files.release(node);
}

Task<> open_waiting(std::unique_ptr<WaitingRequest> request, DoorState* door, NodeId node,
                    fuse_file_info info) {
  Result<std::shared_ptr<OpenFile>> opened =
      co_await door->file_system.open(request->context(), node, info.flags);
  if (!opened) request->failed(opened.error());
  const uint64_t unique = request->unique();
  reply_open(*door, request->answer(), unique, node, info, std::move(opened));
}

void open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  DoorState& door = DoorState::of(request);
  if (door.options.io_uring) ThreadTurns::of_this_thread().served();
  // After one ENOSYS the kernel sends no more OPENs.
  if (door.no_open) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  const RequestLabel label{.kind = RequestKind::kOpen, .node = node};
  const PlaceTrace trace;
  if (auto opened = door.file_system.try_open(node, info->flags)) {
    trace.answered(door.file_system, label);
    return reply_open(door, request, current_unique, node, *info, *std::move(opened));
  }
  door.executor.spawn(open_waiting(door.wait(request, label), &door, node, *info));
}

Task<> read_waiting(std::unique_ptr<WaitingRequest> request, DoorState* door,
                    std::shared_ptr<OpenFile> file, uint64_t offset, uint64_t size) {
  Result<Bytes> bytes = co_await file->read(request->context(), offset, size);
  if (bytes) {
    reply_bytes(request->answer(), *bytes);
  } else {
    request->failed(bytes.error());
    reply_error(*door, request->answer(), file->node(), bytes.error());
  }
}

// Reads a local file that was not opened.
Task<> read_unopened_waiting(std::unique_ptr<WaitingRequest> request, DoorState* door, NodeId node,
                             uint64_t offset, uint64_t size) {
  Result<std::shared_ptr<OpenFile>> file =
      co_await door->file_system.open(request->context(), node, O_RDONLY);
  if (!file) {
    request->failed(file.error());
    reply_error(*door, request->answer(), node, file.error());
    co_return;
  }
  std::shared_ptr<OpenFile> kept = door->unopened.add(*std::move(file));
  co_await read_waiting(std::move(request), door, std::move(kept), offset, size);
}

// Returns the file of a READ without OPEN: with no_open, or if a predecessor could not record the
// open. Null: it must be opened.
std::shared_ptr<OpenFile> find_file(DoorState& door, NodeId node) {
  if (!door.no_open) {
    if (std::shared_ptr<OpenFile> file = door.files.find(node)) return file;
  }
  if (std::shared_ptr<OpenFile> file = door.unopened.find(node)) return file;
  std::shared_ptr<OpenFile> file = door.file_system.believed_file(node);
  return file ? door.unopened.add(std::move(file)) : nullptr;
}

void read(fuse_req_t request, fuse_ino_t node, size_t size, off_t at, fuse_file_info* info) {
  DoorState& door = DoorState::of(request);
  const auto offset = static_cast<uint64_t>(at);
  const RequestLabel label{
      .kind = RequestKind::kRead, .node = node, .offset = offset, .bytes = size};
  const PlaceTrace trace;
  std::shared_ptr<OpenFile> file = find_file(door, node);
  if (!file) {
    return door.executor.spawn(
        read_unopened_waiting(door.wait(request, label), &door, node, offset, size));
  }
  // Without a page cache in between, the program would see the error. Direct reads carry the lock
  // owner, even without the flag (a loop device).
  const bool direct = (info->flags & O_DIRECT) != 0 || info->lock_owner != 0;
  if (!direct && file->refuses(offset, size)) {
    fuse_reply_err(request, EAGAIN);
    return;
  }
  if (auto bytes = file->try_read(offset, size)) {
    reads_in_place.add();
    trace.answered(door.file_system, label);
    return reply_bytes(request, *bytes);
  }
  reads_waited.add();
  door.executor.spawn(
      read_waiting(door.wait(request, label), &door, std::move(file), offset, size));
}

void release(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  DoorState& door = DoorState::of(request);
  const bool passed_through = door.records.kept() && door.files.passed_through() > 0;
  const OpenFiles::BackingId backing = passed_through ? door.files.backing_of(node) : 0;
  const DoorRecords::Doing doing(door.records, current_unique, DoorRecords::Deed::kRelease, node,
                                 backing);
  if (door.records.release_once(current_unique)) door.files.release(node);
  fuse_reply_err(request, 0);
}

}  // namespace

// Without `flush`: the first ENOSYS makes the kernel skip it on close.
void add_file_operations(fuse_lowlevel_ops& operations) {
  operations.open = &open;
  operations.read = &read;
  operations.release = &release;
}

bool undo_unanswered(DoorState& door, uint64_t unique) {
  const std::optional<DoorRecords::Done> done = door.records.take_unanswered(unique);
  if (!done) return false;
  switch (done->deed) {
    case DoorRecords::Deed::kLookup:
      door.file_system.forget(done->node, 1);
      return false;
    case DoorRecords::Deed::kOpen:
      door.files.release(done->node);
      return false;
    case DoorRecords::Deed::kRelease:
      return true;
    case DoorRecords::Deed::kNone:
      return false;
  }
  return false;
}

}  // namespace leat
