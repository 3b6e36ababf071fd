// SPDX-License-Identifier: Apache-2.0
// Lists a prefix in several ranges of keys at once, since each page waits for the store's latency.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/task.h"
#include "source/source.h"

namespace leat {

struct RangeListingOptions {
  unsigned requests_max = 32;  // concurrent
  // Pages that are listed in order first, so that a small prefix costs no more requests than it has
  // pages.
  unsigned pages_in_order = 4;
};

// Lists all pages of `request`, which has no token. `add` gets each page, one at a time, in any
// order of their keys, each key once; next_token is set while more follow. A listing that began
// before a change may show the state before it, as any listing of several pages. In sequence if the
// source does not list from any key (SourceCapabilities).
Task<Result<>> list_in_ranges(Context context, SourcePtr source, ListRequest request,
                              Executor& executor, std::function<Task<Result<>>(ListPage)> add,
                              RangeListingOptions options = {});

// Returns keys below `prefix` that divide what follows `page` up to `end` (inclusive; empty: to the
// end of the prefix), ascending. It guesses: names go on with the characters that vary in the page.
std::vector<std::string> split_keys(const std::string& prefix, const ListPage& page,
                                    const std::string& end);

}  // namespace leat
