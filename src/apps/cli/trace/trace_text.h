// SPDX-License-Identifier: Apache-2.0
// A trace for people: one line a span, indented below its parent.
#pragma once

#include <string>

#include "frontends/admin/trace_view.h"

namespace leat {

// Returns "read of 128.0 KiB at 0" and below it the spans, each with start and duration in
// milliseconds, sorted by start.
std::string trace_text(const RequestView& request);

}  // namespace leat
