// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace leat::internal {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "leat: broken invariant at %s:%d: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace leat::internal
