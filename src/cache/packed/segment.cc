// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment.h"

#include <fmt/format.h>

namespace leat {

Segment::~Segment() {
  close_files();  // closes the unlinked files first: their bytes stay on disk until then
}

std::string Segment::name(uint32_t sequence, const char* suffix) {
  return fmt::format("segments/{:08x}{}", sequence, suffix);
}

}  // namespace leat
