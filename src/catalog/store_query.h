// SPDX-License-Identifier: Apache-2.0
// Requests of the catalog to a store: all names of a directory, or one name. Handles the
// differences between stores (real directories, markers); holds no state.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "catalog/directory.h"
#include "catalog/memory_name_table.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/task.h"

namespace leat {

// Destination of the names of a large directory.
struct SpillOptions {
  Executor* executor;
  uint64_t names_max;  // limit of the names in memory
  std::string folder;  // empty: all names stay in memory
};

// Lists all pages. Calls `on_first_page` after the first one if more follow. Returns kNotFound if
// the directory is missing or cannot be addressed, kNotDirectory if it is a file. Names that cannot
// be shown are skipped, counted and logged once. `age`: in: maximum age of an answer from memory;
// out: its actual age.
Task<Result<std::shared_ptr<NameTable>>> list_directory(Context context, DirectoryPtr directory,
                                                        NameTablePtr known, SpillOptions spill,
                                                        std::function<void()> on_first_page,
                                                        Clock::duration* age);

// Prefers a directory, as a listing would show it, unless the name was a file. With an `executor`
// it checks for both at once, else for one after the other. Then a file is returned that the store
// knows much earlier than a directory. `token` is held until the requests have ended. A name that
// the store cannot address does not exist.
Task<Result<CheckedName>> check_name(Gate::Holder token, Executor* executor, Context context,
                                     DirectoryPtr directory, std::string name, bool was_file,
                                     Clock::duration age_max);

// Returns the state of the name of an object.
CheckedName to_checked(const Source& source, const SourceObject& object, const PathPolicy& policy);

}  // namespace leat
