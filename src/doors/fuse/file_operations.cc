// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/operations.h"
#include "doors/fuse/replies.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter opens_read("leat_fuse_opens_total", "Opens of files", R"(mode="read")");
Counter opens_passthrough("leat_fuse_opens_total", "Opens of files", R"(mode="passthrough")");
Counter reads_in_place("leat_fuse_reads_total", "READ requests", R"(answered="in_place")");
Counter reads_waited("leat_fuse_reads_total", "READ requests", R"(answered="waited")");

// 0 for the READ path, else what the kernel shall read by itself.
PassthroughTable::BackingId choose_mode(PassthroughTable& table, OpenFile& file) {
  if (auto repeated = table.repeat(file.node())) return *repeated;
  std::shared_ptr<BackingFile> backing;
  if (table.on()) backing = file.backing();
  return table.open(file.node(), std::move(backing));
}

void reply_open(DoorState& door, fuse_req_t request, NodeId node, fuse_file_info info,
                Result<std::shared_ptr<OpenFile>> opened) {
  if (!opened) return reply_error(door, request, node, opened.error());
  const PassthroughTable::BackingId backing = choose_mode(door.passthrough, **opened);
  if (backing != 0) {
    info.backing_id = backing;
    opens_passthrough.add();
  } else {
    info.keep_cache = 1;  // a node is one version, so its pages stay right
    opens_read.add();
  }
  info.noflush = 1;
  info.fh = door.files.add({std::move(*opened)});
  if (fuse_reply_open(request, &info) == 0) return;
  // The opener is gone and no RELEASE will come.
  door.passthrough.release(node);
  door.files.remove(info.fh);
}

Task<> open_waiting(std::unique_ptr<WaitingRequest> request, DoorState* door, NodeId node,
                    fuse_file_info info) {
  Result<std::shared_ptr<OpenFile>> opened =
      co_await door->file_system.open(request->context(), node, info.flags);
  reply_open(*door, request->answer(), node, info, std::move(opened));
}

void open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  DoorState& door = DoorState::of(request);
  if (auto opened = door.file_system.try_open(node, info->flags)) {
    return reply_open(door, request, node, *info, *std::move(opened));
  }
  door.executor.spawn(open_waiting(door.wait(request), &door, node, *info));
}

Task<> read_waiting(std::unique_ptr<WaitingRequest> request, DoorState* door,
                    std::shared_ptr<OpenFile> file, uint64_t offset, uint64_t size) {
  Result<Bytes> bytes = co_await file->read(request->context(), offset, size);
  if (bytes) {
    reply_bytes(request->answer(), *bytes);
  } else {
    reply_error(*door, request->answer(), file->node(), bytes.error());
  }
}

void read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  DoorState& door = DoorState::of(request);
  const std::shared_ptr<OpenFile>& file = HandleSet<OpenHandle>::at(info->fh).file;
  if (auto bytes = file->try_read(static_cast<uint64_t>(offset), size)) {
    reads_in_place.add();
    return reply_bytes(request, *bytes);
  }
  reads_waited.add();
  door.executor.spawn(
      read_waiting(door.wait(request), &door, file, static_cast<uint64_t>(offset), size));
}

void release(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  DoorState& door = DoorState::of(request);
  door.passthrough.release(node);
  door.files.remove(info->fh);
  fuse_reply_err(request, 0);
}

}  // namespace

// Without `flush`: the kernel learns by the first ENOSYS that closing needs no word with the door.
void add_file_operations(fuse_lowlevel_ops& operations) {
  operations.open = &open;
  operations.read = &read;
  operations.release = &release;
}

}  // namespace leat
