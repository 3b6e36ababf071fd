// SPDX-License-Identifier: Apache-2.0
// Schemes: which stores there are, and how a URL names one of them.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "model/store_url.h"
#include "source/opendal_source.h"

namespace leat {

// A kind of store that is reached through the shim.
struct Scheme {
  std::string_view name;
  std::span<const std::string_view> options;
  // Where its credentials come from.
  std::string_view credentials;
  // Not run against a server of its kind: what it can do is what the library's documentation says.
  bool experimental;
  Result<OpendalConfig> (*configure)(const StoreUrl& url);
};

std::span<const Scheme> schemes();
// Null for one that is not there.
const Scheme* find_scheme(std::string_view name);

}  // namespace leat
