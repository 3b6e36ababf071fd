// SPDX-License-Identifier: Apache-2.0
// Host field of a request, as a defence against DNS rebinding. A foreign page can resolve its own
// name to 127.0.0.1, but cannot make the browser send another name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

// Returns true for localhost, an IPv4 address of 127.0.0.0/8 with all four numbers, or [::1]. A
// port is optional and may differ from the daemon's (ssh -L).
bool is_loopback_host(std::string_view host);

// Returns true for one of `names`, ignoring case and port.
bool is_accepted_host(std::string_view host, std::span<const std::string> names);
// Parses "prometheus.example, leat.lan" into names; empty text gives none. kInvalidArgument for an
// invalid host name or a port.
Result<std::vector<std::string>> parse_host_names(std::string_view text);

}  // namespace leat
