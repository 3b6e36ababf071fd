// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/kernel_capabilities.h"

#include <linux/fuse.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "frontends/fuse/connection/probe_connection.h"
#include "frontends/fuse/connection_backings.h"

namespace leat {
namespace {

// FUSE_INIT flags that the headers of Debian 12 (Linux 6.1) lack. Flags from bit 32 on are in
// flags2.
constexpr uint64_t kPassthrough = uint64_t{1} << 37;     // 6.9
constexpr uint64_t kHasResend = uint64_t{1} << 39;       // 6.9
constexpr uint64_t kOverIoUring = uint64_t{1} << 41;     // 6.14
constexpr uint64_t kRequestTimeout = uint64_t{1} << 42;  // 6.15
// Features without a flag, by the protocol's minor number.
constexpr unsigned kNoFlushMinor = 35;  // FOPEN_NOFLUSH, 5.16
constexpr unsigned kEpochMinor = 44;    // FUSE_NOTIFY_INC_EPOCH, 6.16

// Size of fuse_init_in before FUSE_INIT_EXT (5.17) added flags2.
constexpr size_t kShortInitBytes = 16;
// The kernel's minimum is FUSE_MIN_READ_BUFFER, 8 KiB.
constexpr size_t kRequestBytesMax = 64 * 1024;
// A backing file's file system may not itself be stacked on another, such as overlayfs.
constexpr uint32_t kStackDepthMax = 1;

// fuse_init_out of 6.15; the size is the same in all versions.
struct InitReply {
  fuse_out_header header{};
  uint32_t major = FUSE_KERNEL_VERSION;
  uint32_t minor = 0;
  uint32_t read_ahead_bytes_max = 0;
  uint32_t flags = 0;
  uint16_t background_max = 1;
  uint16_t congestion_threshold = 1;
  uint32_t write_bytes_max = 4096;
  uint32_t time_granularity_ns = 1;
  uint16_t pages_max = 1;
  uint16_t map_alignment = 0;
  uint32_t flags2 = 0;
  uint32_t stack_depth_max = 0;
  uint16_t request_timeout_s = 0;
  std::array<uint16_t, 11> unused{};
};
static_assert(sizeof(InitReply) == sizeof(fuse_out_header) + sizeof(fuse_init_out));

KernelCapabilities capabilities_of(const fuse_init_in& init, uint64_t flags) {
  return {.protocol_major = init.major,
          .protocol_minor = init.minor,
          .readdirplus = (flags & FUSE_DO_READDIRPLUS) != 0,
          .parallel_directory_operations = (flags & FUSE_PARALLEL_DIROPS) != 0,
          .no_open = (flags & FUSE_NO_OPEN_SUPPORT) != 0,
          .no_flush = init.minor >= kNoFlushMinor,
          .passthrough = (flags & kPassthrough) != 0,
          .io_uring = (flags & kOverIoUring) != 0,
          .resend = (flags & kHasResend) != 0,
          .epochs = init.minor >= kEpochMinor,
          .request_timeout = (flags & kRequestTimeout) != 0,
          .read_ahead_bytes_max = init.max_readahead};
}

Result<std::string> read_request(int device, std::chrono::milliseconds timeout) {
  pollfd readable{.fd = device, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&readable, 1, static_cast<int>(timeout.count()));
  if (ready < 0) return error(status_from_errno(errno, "cannot wait for the kernel's FUSE_INIT"));
  if (ready == 0) {
    return error(StatusCode::kTimedOut, "the kernel sent no FUSE_INIT");
  }
  std::string request(kRequestBytesMax, '\0');
  const ssize_t got = ::read(device, request.data(), request.size());
  if (got < 0) return error(status_from_errno(errno, "cannot read the kernel's FUSE_INIT"));
  request.resize(static_cast<size_t>(got));
  return request;
}

// Results are in the order of the files.
Result<std::vector<Result<>>> try_backings(int device, const InitRequest& request,
                                           const std::vector<int>& files) {
  const std::string reply = init_reply(request);
  if (::write(device, reply.data(), reply.size()) < 0) {
    return error(status_from_errno(errno, "the kernel rejected the reply to its FUSE_INIT"));
  }
  ConnectionBackings kernel;
  kernel.connect(device);
  std::vector<Result<>> outcomes;
  for (int file : files) {
    Result<int> id = kernel.add(file);
    if (id) kernel.remove(*id);
    outcomes.push_back(id ? Result<>() : error(id.error()));
  }
  return outcomes;
}

}  // namespace

Result<InitRequest> parse_init(std::span<const std::byte> request) {
  fuse_in_header header{};
  fuse_init_in init{};
  if (request.size() < sizeof header + kShortInitBytes) {
    return error(StatusCode::kUnsupported, "the kernel's FUSE_INIT is truncated");
  }
  std::memcpy(&header, request.data(), sizeof header);
  std::memcpy(&init, request.data() + sizeof header,
              std::min(request.size() - sizeof header, sizeof init));
  if (header.opcode != FUSE_INIT || init.major != FUSE_KERNEL_VERSION) {
    return error(StatusCode::kUnsupported, "the kernel's FUSE protocol is not version 7");
  }
  uint64_t flags = init.flags;
  if ((flags & FUSE_INIT_EXT) != 0) flags |= uint64_t{init.flags2} << 32;
  return InitRequest{.unique = header.unique, .capabilities = capabilities_of(init, flags)};
}

std::string init_reply(const InitRequest& request) {
  InitReply reply;
  reply.header = {.len = sizeof reply, .error = 0, .unique = request.unique};
  reply.minor = request.capabilities.protocol_minor;
  if (request.capabilities.passthrough) {
    reply.flags = FUSE_INIT_EXT;
    reply.flags2 = static_cast<uint32_t>(kPassthrough >> 32);
    reply.stack_depth_max = kStackDepthMax;
  }
  return {reinterpret_cast<const char*>(&reply), sizeof reply};
}

Result<KernelCapabilities> probe_kernel(const CapabilityProbe& probe) {
  LEAT_TRY(std::unique_ptr<ProbeConnection> connection,
           ProbeConnection::open({.device = probe.device,
                                  .fusermount = probe.fusermount,
                                  .try_direct_mount = probe.try_direct_mount,
                                  .timeout = probe.timeout}));
  LEAT_TRY(std::string text, read_request(connection->fd(), probe.timeout));
  LEAT_TRY(InitRequest request, parse_init(std::as_bytes(std::span(text))));
  if (request.capabilities.passthrough && !probe.files.empty()) {
    LEAT_TRY(request.capabilities.backings, try_backings(connection->fd(), request, probe.files));
  }
  return std::move(request.capabilities);
}

}  // namespace leat
