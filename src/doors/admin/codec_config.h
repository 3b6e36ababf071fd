// SPDX-License-Identifier: Apache-2.0
// The JSON of the daemon's options, as codec.h describes it. Private to this room.
#pragma once

#include "doors/admin/codec.h"

namespace leat {

void decode(const Json& json, OptionView& option);
void decode(const Json& json, ReloadView& view);

}  // namespace leat
