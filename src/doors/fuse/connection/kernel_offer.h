// SPDX-License-Identifier: Apache-2.0
// KernelOffer: what the running kernel offers over FUSE, asked of it by a connection that nobody
// sees. Its version says little: distributions bring features back, containers and parameters of
// the module take them away.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace leat {

struct KernelOffer {
  unsigned protocol_major = 0;
  unsigned protocol_minor = 0;
  bool readdirplus = false;
  bool parallel_directory_operations = false;
  bool no_open = false;  // opens may be left out
  bool no_flush = false;
  bool passthrough = false;
  bool io_uring = false;  // only where enable_uring of the module is Y
  bool resend = false;    // requests of a server that went can be asked for again
  bool epochs = false;    // all names are forgotten at once
  bool request_timeout = false;
  uint64_t read_ahead_bytes_max = 0;
  // Whether the kernel would read files of that kind by itself, of each file of the question.
  std::vector<Result<>> backings{};
};

// FUSE_INIT as the kernel sends it; kUnsupported for anything else.
struct InitRequest {
  uint64_t unique = 0;  // of the request, for its answer
  KernelOffer offer;
};
Result<InitRequest> parse_init(std::span<const std::byte> request);
// The answer to it, which takes passthrough where it is offered.
std::string init_reply(const InitRequest& request);

struct KernelQuestion {
  // Regular files, open for reading; they stay the caller's.
  std::vector<int> files{};
  // Of each step that could wait. What it takes as a whole is bounded by a few of these.
  std::chrono::milliseconds patience = std::chrono::seconds(5);
  std::string device = "/dev/fuse";
  std::string fusermount = "fusermount3";
  // Without it by fusermount3 only, as an ordinary user.
  bool by_itself = true;
};

// With CAP_SYS_ADMIN by a file system that is mounted nowhere and goes with its descriptor. Else
// fusermount3 mounts it at a folder of its own in the temporary directory, and takes it away again,
// also when this process is killed. kNotFound: no device; kPermissionDenied: neither is allowed;
// kTimedOut. Blocks.
Result<KernelOffer> ask_kernel(const KernelQuestion& question = {});

}  // namespace leat
