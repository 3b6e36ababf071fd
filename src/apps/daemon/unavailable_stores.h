// SPDX-License-Identifier: Apache-2.0
// The stores that answer no request now, as `leat status` and `.leat/status` show them.
#pragma once

#include <vector>

#include "doors/admin/host.h"

namespace leat {

std::vector<UnavailableView> unavailable_stores();

}  // namespace leat
