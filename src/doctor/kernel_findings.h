// SPDX-License-Identifier: Apache-2.0
// FUSE features that the kernel offers, and the effect of its settings on them.
#pragma once

#include <optional>

#include "doctor/finding.h"
#include "doctor/host_paths.h"
#include "doctor/process_rights.h"
#include "frontends/fuse/kernel_capabilities.h"

namespace leat {

struct KernelSettings {
  std::optional<bool> enable_uring{};  // parameter of the fuse module; nothing: the module lacks it
  bool io_uring_wanted = false;        // fuse.io_uring of the configuration
  // Seconds of the sysctls fs.fuse.*_request_timeout; 0: none.
  uint64_t default_request_timeout_s = 0;
  uint64_t max_request_timeout_s = 0;
  int read_ahead_errno = 0;  // from writing to /sys/class/bdi; 0: it can be set
};

KernelSettings gather_kernel_settings(const HostPaths& paths);

// `may_mount`: false explains why the kernel could not be queried.
Findings kernel_findings(const Result<KernelCapabilities>& capabilities,
                         const KernelSettings& settings, const ProcessRights& rights,
                         bool may_mount);
// Returns null if the kernel could not be queried.
Json to_json(const Result<KernelCapabilities>& capabilities);

}  // namespace leat
