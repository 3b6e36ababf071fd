// SPDX-License-Identifier: Apache-2.0
// Options of a source's URL: the known names, their meaning, the form of an endpoint.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/store_url.h"

namespace leat {

// Returns kInvalidArgument for an option that is not among `known`, naming the nearest, and for a
// value that looks like a secret, naming the origin of `credentials`.
Result<> check_options(const StoreUrl& url, std::span<const std::string_view> known,
                       std::string_view credentials);

// Returns the option, else the first variable that is set in the environment, else `otherwise`.
std::string option_or_environment(const StoreUrl& url, const std::string& option,
                                  std::initializer_list<const char*> variables,
                                  std::string otherwise);

// Returns the form of an endpoint in a store's identity: lower case, no default port, no slash at
// the end. With `path`, a path may follow, and its case is kept. Returns kInvalidArgument unless it
// is http[s]://host[:port], without credentials.
Result<std::string> canonical_endpoint(std::string endpoint, bool path = false);

// Parses one of two words: `yes` is true, `no` is false.
Result<bool> either(const std::string& option, const std::string& value, std::string_view yes,
                    std::string_view no);

}  // namespace leat
