// SPDX-License-Identifier: Apache-2.0
// WorkerId: a cluster's member. It lives in the worker's cache directories, not in its address: a
// worker that comes back elsewhere with its disks is the same one.
#pragma once

#include "base/id128.h"

namespace leat {

struct WorkerIdTag {};
using WorkerId = TypedId<WorkerIdTag>;

}  // namespace leat
