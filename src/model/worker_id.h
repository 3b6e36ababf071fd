// SPDX-License-Identifier: Apache-2.0
// WorkerId: a member of a cluster. It is stored in the worker's cache directories and independent
// of its address. A worker that returns at another address with its disks is the same one.
#pragma once

#include "base/id128.h"

namespace leat {

struct WorkerIdTag {};
using WorkerId = TypedId<WorkerIdTag>;

}  // namespace leat
