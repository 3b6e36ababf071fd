// SPDX-License-Identifier: Apache-2.0
// Checkup: all checks of `leat doctor`, in the order of its output. Changes nothing; every wait is
// bounded.
#pragma once

#include <vector>

#include "daemon/daemon_options.h"
#include "doctor/daemon_findings.h"
#include "doctor/finding.h"
#include "doctor/host_paths.h"
#include "model/store_url.h"

namespace leat {

struct Checkup {
  Findings findings;
  Json kernel;  // FUSE features of the kernel; null if they could not be queried
};

struct CheckupOptions {
  // Runtime directory and configuration of the daemon to check. If a daemon runs, its own
  // configuration counts, and only the settings of `run` are used.
  DaemonRun run{};
  DaemonFacts daemon{};  // of the daemon with that runtime directory
  // Checked with the credentials of this process; the daemon's may differ.
  std::vector<StoreUrl> sources{};
  // Measures the disks, which writes up to 64 MiB to each temporarily.
  bool speed = true;
};

Checkup check_host(const HostPaths& paths, const CheckupOptions& options);

}  // namespace leat
