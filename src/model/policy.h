// SPDX-License-Identifier: Apache-2.0
// Policy: how a mount (later: a path) is kept fresh, what of it is cached, and who may
// see it.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/cache_use.h"
#include "model/pool.h"

namespace leat {

struct Freshness {
  enum class Mode : uint8_t {
    kMaxAge,     // checked at open when what is known is older than max_age
    kImmutable,  // never checked again once known
    kValidate,   // checked at each open
    kSnapshot,   // as a snapshot of the store says, for as long as that is used
  };
  Mode mode = Mode::kMaxAge;
  std::chrono::nanoseconds max_age = std::chrono::seconds(60);
  // How long a missing name is believed to be missing, whatever the mode.
  std::chrono::nanoseconds negative_age = std::chrono::seconds(5);

  // The same, but nothing is believed longer than what is there. Counted from when the store was
  // asked, like max_age.
  std::chrono::nanoseconds missing_age() const {
    const bool ages = mode == Mode::kMaxAge || mode == Mode::kValidate;
    return ages ? std::min(negative_age, max_age) : negative_age;
  }

  // "max-age=60s", "immutable", "validate", "snapshot".
  static Result<Freshness> parse(std::string_view text);
  std::string to_string() const;

  friend bool operator==(const Freshness&, const Freshness&) = default;
};

struct Policy {
  Freshness freshness;
  CacheMode cache = CacheMode::kAuto;
  PoolId pool = PoolId::kNone;
  bool read_only = true;  // writing is not there yet
  bool isolated = false;  // its own StoreId: shares no page with another mount
  uid_t uid = 0;          // owner shown for every name
  gid_t gid = 0;
  mode_t umask = 022;  // taken from 0666 (files) and 0777 (directories)
};

}  // namespace leat
