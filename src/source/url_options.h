// SPDX-License-Identifier: Apache-2.0
// Options of a source's URL: which are known, what they mean, what an endpoint looks like.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/store_url.h"

namespace leat {

// kInvalidArgument for an option that is not among `known`, naming the nearest, and for what looks
// like a secret, saying where `credentials` come from.
Result<> check_options(const StoreUrl& url, std::span<const std::string_view> known,
                       std::string_view credentials);

// The option, or the first of the environment's variables that is set, or `otherwise`.
std::string option_or_environment(const StoreUrl& url, const std::string& option,
                                  std::initializer_list<const char*> variables,
                                  std::string otherwise);

// The form in which an endpoint is part of a store's identity: lower case, no default port, no
// slash at the end. kInvalidArgument unless it is http[s]://host[:port], without credentials; with
// `path`, a path may follow, whose case is kept.
Result<std::string> canonical_endpoint(std::string endpoint, bool path = false);

// One of two words.
Result<bool> either(const std::string& option, const std::string& value, std::string_view yes,
                    std::string_view no);

}  // namespace leat
