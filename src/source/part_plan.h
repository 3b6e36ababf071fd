// SPDX-License-Identifier: Apache-2.0
// PartPlan: cuts an object into parts that are sent and parts that the store copies from another
// version of it. Each part but the last has the store's minimum size.
#pragma once

#include <cstdint>
#include <vector>

#include "source/source.h"

namespace leat {

struct PlannedPart {
  ByteRange range;
  bool copied = false;  // else it is sent

  friend bool operator==(const PlannedPart&, const PlannedPart&) = default;
};

// Returns the parts of an object of `size` bytes, in their order. `same` are the ranges that the
// other version has as well, in their order and apart from each other. A copied part has at least
// one of the store's parts. Empty: nothing is worth a copy, or there would be too many parts.
std::vector<PlannedPart> plan_parts(const SourceCapabilities& store, uint64_t size,
                                    const std::vector<ByteRange>& same);

}  // namespace leat
