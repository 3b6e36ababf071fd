// SPDX-License-Identifier: Apache-2.0
#include "base/program_version.h"

namespace leat {

std::string_view program_version() {
  return LEAT_VERSION;
}

}  // namespace leat
