// SPDX-License-Identifier: Apache-2.0
// The JSON of jobs, as codec.h describes it. Private to this room.
#pragma once

#include "doors/admin/codec.h"

namespace leat {

void decode(const Json& json, JobRequest& request);
void decode(const Json& json, JobView& job);

}  // namespace leat
