// SPDX-License-Identifier: Apache-2.0
// Whether this process can mount at all, and for which users.
#pragma once

#include <string>

#include "doctor/finding.h"
#include "doctor/host_paths.h"
#include "doctor/process_rights.h"

namespace leat {

struct FuseFacts {
  int device_errno = 0;            // from open(2) of the device; 0: success
  std::string fusermount{};        // path; empty if there is none
  bool fusermount_raised = false;  // it runs with root's rights: setuid, or file capabilities
  bool user_allow_other = false;   // in fuse.conf
};

FuseFacts gather_fuse(const HostPaths& paths);

Findings fuse_findings(const FuseFacts& facts, const ProcessRights& rights);

}  // namespace leat
