// SPDX-License-Identifier: Apache-2.0
// HTTP routes of request traces and of slow operations.
#pragma once

#include "http/router.h"

namespace leat {

// GET /v1/slow; POST /v1/traces, GET and DELETE /v1/traces/{id}.
void add_trace_routes(HttpRouter& router);

}  // namespace leat
