// SPDX-License-Identifier: Apache-2.0
// The stores that do not respond now, for `leat status` and `.leat/status`.
#pragma once

#include <vector>

#include "doors/admin/host.h"

namespace leat {

std::vector<UnavailableView> unavailable_stores();

}  // namespace leat
