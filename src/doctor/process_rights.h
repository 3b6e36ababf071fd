// SPDX-License-Identifier: Apache-2.0
// ProcessRights: the rights of this process that Leat needs.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "doctor/finding.h"

namespace leat {

struct ProcessRights {
  uid_t user = 0;          // effective
  bool sys_admin = false;  // CAP_SYS_ADMIN, effective
  bool seccomp = false;    // a filter, or strict mode

  bool root() const { return user == 0; }
};

// Parses the text of /proc/self/status.
ProcessRights parse_rights(std::string_view status, uid_t user);

Findings rights_findings(const ProcessRights& rights);

}  // namespace leat
