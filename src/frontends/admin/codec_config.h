// SPDX-License-Identifier: Apache-2.0
// JSON of the daemon's options, as in codec.h. Private to this module.
#pragma once

#include "frontends/admin/codec.h"

namespace leat {

void decode(const Json& json, OptionView& option);
void decode(const Json& json, ReloadView& view);

}  // namespace leat
