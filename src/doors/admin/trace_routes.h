// SPDX-License-Identifier: Apache-2.0
// Traces of single requests, and the operations that were slow, over HTTP.
#pragma once

#include "http/router.h"

namespace leat {

// GET /v1/slow; POST /v1/traces, GET and DELETE /v1/traces/{id}.
void add_trace_routes(HttpRouter& router);

}  // namespace leat
