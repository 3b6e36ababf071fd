// SPDX-License-Identifier: Apache-2.0
// Schemes: the kinds of stores, and how a URL names one of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/store_url.h"
#include "source/stores/opendal_source.h"

namespace leat {

// A kind of store that is accessed through the shim.
struct Scheme {
  std::string_view name;
  std::span<const std::string_view> options;
  // Origin of its credentials.
  std::string_view credentials;
  // Not tested against a server of its kind: its capabilities come from the library's
  // documentation.
  bool experimental;
  Result<OpendalConfig> (*configure)(const StoreUrl& url);
};

std::span<const Scheme> schemes();
// Returns null for an unknown name.
const Scheme* find_scheme(std::string_view name);

// Returns whether `argument` is a store's URL and not a path. "s3:/bucket" counts as one that lacks
// a slash.
bool is_store_url(const std::string& argument);

}  // namespace leat
