// SPDX-License-Identifier: Apache-2.0
// A flight: a task that sends a request to a store, records the result, and then notifies all
// waiters. Flights hold the tree, not the catalog, which may end before them.
#pragma once

#include <string>

#include "catalog/directory.h"
#include "catalog/tree.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/task.h"

namespace leat {

Task<> run_listing(Gate::Holder token, TreePtr tree, DirectoryPtr directory,
                   ListingFlightPtr flight, Executor* executor);
Task<> run_check(Gate::Holder token, TreePtr tree, DirectoryPtr directory, std::string name,
                 CheckFlightPtr flight, Executor* executor);
// A flight with a known result: `now`, or nothing if the name was removed.
void note_name(Tree& tree, Directory& directory, const std::string& name,
               const std::optional<SourceObject>& now);

// Returns how long a lookup waits for the first page of a listing before it requests its one name.
Clock::duration first_page_wait(const Tree& tree, const Directory& directory,
                                ListingFlight& flight);

}  // namespace leat
