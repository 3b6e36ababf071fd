// SPDX-License-Identifier: Apache-2.0
// CacheMode: what a mount wants of the cache. CacheUse: what follows for one of its files.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace leat {

enum class CacheMode : uint8_t {
  kAuto,    // what lies on a disk of this host is read from there, the rest is kept
  kAlways,  // everything is kept
  kNever,   // nothing is
};

// "auto", "always", "never"; kInvalidArgument for anything else.
Result<CacheMode> parse_cache_mode(std::string_view text);

enum class CacheUse : uint8_t {
  kDisk,    // read once from the store and kept in the page store
  kMemory,  // read once for all who want it now, and not kept
  kNone,    // reading it where it is costs no more than reading the cache: so it is, each time
};

// `local`: the file lies on a disk of this host (SourceObject::local).
CacheUse cache_use(CacheMode mode, bool local);
// "disk", "memory", "none".
std::string_view to_string(CacheUse use);

}  // namespace leat
