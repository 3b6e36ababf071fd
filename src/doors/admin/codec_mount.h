// SPDX-License-Identifier: Apache-2.0
// The JSON of mounts, as codec.h describes it. Private to this room.
#pragma once

#include "doors/admin/codec.h"

namespace leat {

void decode(const Json& json, MountRequest& request);
void decode(const Json& json, MountView& view);
void decode(const Json& json, MountChange& change);
void decode(const Json& json, MountMove& move);

}  // namespace leat
