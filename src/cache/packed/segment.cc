// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment.h"

#include <fmt/format.h>

namespace leat {

Segment::~Segment() {
  close_files();  // an unlinked file is on disk until then, and `charge` is given back after it
}

std::string Segment::name(uint32_t sequence, const char* suffix) {
  return fmt::format("segments/{:08x}{}", sequence, suffix);
}

}  // namespace leat
