// SPDX-License-Identifier: Apache-2.0
// CacheMode: how a mount uses the cache. CacheUse: the consequence for one of its files.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace leat {

enum class CacheMode : uint8_t {
  kAuto,    // files on a disk of this host are read there, all others are cached
  kAlways,  // all files are cached
  kNever,   // no file is cached
};

// "auto", "always", "never"; kInvalidArgument for anything else.
Result<CacheMode> parse_cache_mode(std::string_view text);

enum class CacheUse : uint8_t {
  kDisk,    // read once from the store and kept in the page store
  kMemory,  // read once for all concurrent readers, and not kept
  kBypass,  // a read of the file costs no more than one of the cache: all reads go to the file
};

// `local`: the file lies on a disk of this host (SourceObject::local).
CacheUse cache_use(CacheMode mode, bool local);
// "disk", "memory", "none".
std::string_view to_string(CacheUse use);

}  // namespace leat
