// SPDX-License-Identifier: Apache-2.0
// The JSON of findings, as codec.h describes it. Private to this room.
#pragma once

#include "doors/admin/codec.h"

namespace leat {

void decode(const Json& json, Finding& finding);

}  // namespace leat
