// SPDX-License-Identifier: Apache-2.0
// LEAT_CHECK: asserts an invariant of our own code. Always on; aborts with file, line and
// condition. Never for outside input, which gets a Status.
#pragma once

namespace leat::internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}

#define LEAT_CHECK(condition)         \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::leat::internal::check_failed(__FILE__, __LINE__, #condition))
