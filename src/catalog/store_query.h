// SPDX-License-Identifier: Apache-2.0
// What the catalog asks of a store: all names of a directory, or one name. Knows where stores
// differ (real directories, markers); keeps nothing.
#pragma once

#include <memory>
#include <string>

#include "catalog/directory.h"
#include "catalog/memory_name_table.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

// Where the names of a large directory go.
struct LargeListings {
  Executor* executor;
  uint64_t names_max;  // that stay in memory
  std::string folder;  // empty: all of them do
};

// All pages. kNotFound when the directory is not there or cannot be addressed, kNotDirectory when
// it is a file. Names that cannot be shown are left out, counted and logged once.
// `age`: what may be answered from before, and afterwards how long before it was.
Task<Result<std::shared_ptr<NameTable>>> list_directory(Context context, DirectoryPtr directory,
                                                        NameTablePtr known, LargeListings large,
                                                        Clock::duration* age);

// Asks first for a directory, as a listing would show it, unless the name was a file. A name that
// the store cannot address does not exist.
Task<Result<CheckedName>> check_name(Context context, DirectoryPtr directory, std::string name,
                                     bool was_file, Clock::duration age_max);

}  // namespace leat
