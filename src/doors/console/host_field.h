// SPDX-License-Identifier: Apache-2.0
// The Host field of a request, as a defence against DNS rebinding: a foreign page can let its own
// name point at 127.0.0.1, but it cannot make the browser send another name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

// Whether it is localhost, an IPv4 address of 127.0.0.0/8 with all four numbers, or [::1]; with or
// without a port, which may be another one than the daemon's (ssh -L).
bool names_loopback(std::string_view host);

// Whether it is one of `names`, in any case, with or without a port.
bool names_one_of(std::string_view host, std::span<const std::string> names);
// "prometheus.example, leat.lan" → each name; empty text: none. kInvalidArgument for what is no
// name of a host or has a port.
Result<std::vector<std::string>> parse_host_names(std::string_view text);

}  // namespace leat
