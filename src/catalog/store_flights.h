// SPDX-License-Identifier: Apache-2.0
// A flight: a task that asks a store, records the answer, and then notifies all waiters. Flights
// hold the tree, not the catalog, which may end before them.
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
