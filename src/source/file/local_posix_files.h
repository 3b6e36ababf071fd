// SPDX-License-Identifier: Apache-2.0
// Returns the POSIX operations of this host's file system, for a file source. Keys are as there.
#pragma once

#include <memory>

#include "source/posix_files.h"
#include "source/store_counters.h"

namespace leat {

std::unique_ptr<PosixFiles> make_posix_files(std::shared_ptr<StoreCounters> counters);

}  // namespace leat
