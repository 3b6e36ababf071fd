// SPDX-License-Identifier: Apache-2.0
// KernelCapabilities: FUSE features of the running kernel, queried over a probe connection that is
// visible to no program. The kernel's version says little: distributions backport features;
// containers and module parameters disable them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace leat {

struct KernelCapabilities {
  unsigned protocol_major = 0;
  unsigned protocol_minor = 0;
  bool readdirplus = false;
  bool parallel_directory_operations = false;
  bool no_open = false;  // opens may be skipped
  bool no_flush = false;
  bool passthrough = false;
  bool io_uring = false;  // only if the module's enable_uring is Y
  bool resend = false;    // unanswered requests of a dead server can be resent
  bool epochs = false;    // all names can be invalidated at once
  bool request_timeout = false;
  uint64_t read_ahead_bytes_max = 0;
  // Whether the kernel would accept each file of the probe for passthrough.
  std::vector<Result<>> backings{};
};

// FUSE_INIT as sent by the kernel; kUnsupported for anything else.
struct InitRequest {
  uint64_t unique = 0;  // of the request, for its answer
  KernelCapabilities capabilities;
};
Result<InitRequest> parse_init(std::span<const std::byte> request);
// Encodes the answer; accepts passthrough if offered.
std::string init_reply(const InitRequest& request);

struct CapabilityProbe {
  // Regular files, open for reading; owned by the caller.
  std::vector<int> files{};
  // Timeout of each step that could wait. The total is bounded by a few of these.
  std::chrono::milliseconds timeout = std::chrono::seconds(5);
  std::string device = "/dev/fuse";
  std::string fusermount = "fusermount3";
  // False: only by fusermount3, as an ordinary user.
  bool try_direct_mount = true;
};

// With CAP_SYS_ADMIN it probes a file system that is mounted nowhere and ends with its descriptor.
// Otherwise fusermount3 mounts one at a private directory in the temporary directory. It unmounts
// it again, even if this process is killed. Blocks. kNotFound: no device; kPermissionDenied:
// neither is allowed; kTimedOut.
Result<KernelCapabilities> probe_kernel(const CapabilityProbe& probe = {});

}  // namespace leat
