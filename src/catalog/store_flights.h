// SPDX-License-Identifier: Apache-2.0
// Who waits for a store waits for a flight: a task of its own that asks, enters what it learnt, and
// then tells everybody. Flights hold the tree, not the catalog, which may end before them.
#pragma once

#include <string>

#include "catalog/directory.h"
#include "catalog/tree.h"
#include "runtime/activity.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

Task<> fly_listing(Activity::Token token, TreePtr tree, DirectoryPtr directory,
                   ListingFlightPtr flight, Executor* executor);
Task<> fly_check(Activity::Token token, TreePtr tree, DirectoryPtr directory, std::string name,
                 CheckFlightPtr flight);

}  // namespace leat
