// SPDX-License-Identifier: Apache-2.0
// A trace as people read it: a line for each span, indented below what it was part of.
#pragma once

#include <string>

#include "doors/admin/trace_view.h"

namespace leat {

// "read of 128.0 KiB at 0" and below it, each with begin and length in milliseconds, its spans in
// the order of their beginnings.
std::string trace_text(const RequestView& request);

}  // namespace leat
