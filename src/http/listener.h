// SPDX-License-Identifier: Apache-2.0
// open_listener: opens the listening socket of an endpoint. Private to this module.
#pragma once

#include "base/status.h"
#include "http/endpoint.h"

namespace leat {

struct Listener {
  int fd = -1;            // listening, non-blocking, owned by the caller
  int family = 0;         // AF_UNIX, AF_INET or AF_INET6
  HttpEndpoint endpoint;  // with the assigned port
};

Result<Listener> open_listener(HttpEndpoint endpoint);

}  // namespace leat
