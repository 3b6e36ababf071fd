// SPDX-License-Identifier: Apache-2.0
// The stores that do not respond now, for `leat status` and `.leat/status`.
#pragma once

#include <vector>

#include "frontends/admin/daemon_api.h"

namespace leat {

std::vector<UnavailableView> unavailable_stores();

}  // namespace leat
