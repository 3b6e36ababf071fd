// SPDX-License-Identifier: Apache-2.0
#include "model/cache_use.h"

#include <fmt/format.h>

#include "base/check.h"

namespace leat {

Result<CacheMode> parse_cache_mode(std::string_view text) {
  if (text == "auto") return CacheMode::kAuto;
  if (text == "always") return CacheMode::kAlways;
  if (text == "never") return CacheMode::kNever;
  return error(StatusCode::kInvalidArgument,
               fmt::format("option cache={} must be 'auto', 'always' or 'never'", text));
}

CacheUse cache_use(CacheMode mode, bool local) {
  if (mode == CacheMode::kAlways) return CacheUse::kDisk;
  if (local) return CacheUse::kBypass;
  return mode == CacheMode::kNever ? CacheUse::kMemory : CacheUse::kDisk;
}

std::string_view to_string(CacheUse use) {
  switch (use) {
    case CacheUse::kMemory:
      return "memory";
    case CacheUse::kBypass:
      return "none";
    case CacheUse::kDisk:
      break;
  }
  return "disk";
}

}  // namespace leat
