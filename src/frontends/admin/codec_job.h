// SPDX-License-Identifier: Apache-2.0
// JSON of jobs, as in codec.h. Private to this module.
#pragma once

#include "frontends/admin/codec.h"

namespace leat {

void decode(const Json& json, JobRequest& request);
void decode(const Json& json, JobView& job);

}  // namespace leat
