// SPDX-License-Identifier: Apache-2.0
// JSON of mounts, as in codec.h. Private to this module.
#pragma once

#include "frontends/admin/codec.h"

namespace leat {

void decode(const Json& json, MountRequest& request);
void decode(const Json& json, MountView& view);
void decode(const Json& json, MountChange& change);
void decode(const Json& json, MountMove& move);
void decode(const Json& json, UnsentView& view);
void decode(const Json& json, FlushRequest& request);
void decode(const Json& json, FlushView& view);

}  // namespace leat
