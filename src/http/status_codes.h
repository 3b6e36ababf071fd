// SPDX-License-Identifier: Apache-2.0
// How a Status is sent over HTTP: its code's name in the body, and a matching HTTP status for other
// clients.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"

namespace leat {

int http_status_of(StatusCode code);
// The inverse of to_string(); nothing for a name of a later version.
std::optional<StatusCode> status_code_named(std::string_view name);

}  // namespace leat
