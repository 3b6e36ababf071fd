// SPDX-License-Identifier: Apache-2.0
// JSON of findings, as in codec.h. Private to this module.
#pragma once

#include "frontends/admin/codec.h"

namespace leat {

void decode(const Json& json, Finding& finding);

}  // namespace leat
