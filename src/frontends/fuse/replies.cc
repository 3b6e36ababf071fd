// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/replies.h"

#include <fmt/format.h>

#include <climits>
#include <cstdlib>

#include "base/read_file.h"
#include "frontends/fuse/error_numbers.h"
#include "model/timespec.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter errors_total("leat_fuse_errors_total",
                     "FUSE requests that failed because of the store or the cache");

// The kernel gives the thread; users look for the process.
Caller caller_of(fuse_req_t request) {
  constexpr std::string_view kProcess = "\nTgid:\t";
  Caller caller{.pid = fuse_req_ctx(request)->pid};
  const auto status = read_file(fmt::format("/proc/{}/status", caller.pid));
  const size_t at = status ? status->find(kProcess) : std::string::npos;
  if (at == std::string::npos) return caller;
  caller.pid = std::atoi(status->c_str() + at + kProcess.size());
  const auto name = read_file(fmt::format("/proc/{}/comm", caller.pid));
  if (name) caller.program = name->substr(0, name->find('\n'));
  return caller;
}

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void reply_error(FuseServerState& server, fuse_req_t request, NodeId node, const Status& status,
                 std::string_view name) {
  if (worth_logging(status.code())) {
    errors_total.add();
    server.file_system.record_error(node, name, status, caller_of(request));
    if (auto suppressed = server.log_limiter.admit()) {
      log::error(
          "{}{}", status.to_string(),
          *suppressed > 0 ? fmt::format(" ({} more such lines suppressed)", *suppressed) : "");
    }
  } else if (is_refusal(status.code())) {
    // Programs expect them, and often hide the reason from the user.
    server.file_system.record_error(node, name, status, caller_of(request));
    if (server.log_limiter.admit()) log::info("{}", status.to_string());
  } else if (status.code() == StatusCode::kVersionChanged) {
    server.file_system.record_caller(node, caller_of(request));
  }
  fuse_reply_err(request, to_errno(status.code()));
}

struct stat to_stat(const NodeAttributes& attributes) {
  struct stat out{};
  out.st_ino = attributes.node;
  out.st_mode = attributes.mode;
  const uint64_t links = attributes.kind == FileKind::kDirectory ? 2 : 1;
  out.st_nlink = attributes.links.value_or(links);
  out.st_rdev = attributes.device;
  out.st_uid = attributes.uid;
  out.st_gid = attributes.gid;
  out.st_size = static_cast<off_t>(attributes.size);
  out.st_blksize = 4096;  // as on ext4; programs size their buffers by it
  out.st_blocks = static_cast<blkcnt_t>((attributes.size + 511) / 512);
  out.st_mtim = to_timespec(attributes.mtime);
  out.st_atim = attributes.atime ? to_timespec(*attributes.atime) : out.st_mtim;
  out.st_ctim = attributes.ctime ? to_timespec(*attributes.ctime) : out.st_mtim;
  return out;
}

fuse_entry_param to_entry(const NodeAttributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.node;  // never reused, so the generation stays 0
  entry.attr = to_stat(attributes);
  entry.attr_timeout = entry.entry_timeout = seconds(attributes.valid_for);
  return entry;
}

void reply_entry(FuseServerState& server, fuse_req_t request, uint64_t unique, NodeId parent,
                 std::string_view name, const Result<NodeAttributes>& found,
                 Clock::duration missing_for) {
  if (found) {
    const TakeoverRecords::InflightOp inflight(server.records, unique,
                                               TakeoverRecords::Operation::kLookup, found->node);
    const fuse_entry_param entry = to_entry(*found);
    if (fuse_reply_entry(request, &entry) != 0) server.file_system.forget(found->node, 1);
    return;
  }
  const bool missing = found.error().code() == StatusCode::kNotFound;
  if (missing && missing_for > Clock::duration::zero()) {
    fuse_entry_param entry{};  // node 0: a cacheable missing name
    entry.entry_timeout = seconds(missing_for);
    fuse_reply_entry(request, &entry);
    return;
  }
  reply_error(server, request, parent, found.error(), name);
}

void reply_attributes(FuseServerState& server, fuse_req_t request, NodeId node,
                      const Result<NodeAttributes>& attributes) {
  if (!attributes) return reply_error(server, request, node, attributes.error());
  const struct stat out = to_stat(*attributes);
  fuse_reply_attr(request, &out, seconds(attributes->valid_for));
}

void reply_bytes(fuse_req_t request, const Bytes& bytes) {
  const std::vector<iovec> pieces = bytes.to_iovec();
  if (pieces.size() < IOV_MAX) {  // libfuse adds one
    fuse_reply_iov(request, pieces.data(), static_cast<int>(pieces.size()));
    return;
  }
  const std::string copy = bytes.to_string();
  fuse_reply_buf(request, copy.data(), copy.size());
}

}  // namespace leat
