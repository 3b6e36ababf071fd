// SPDX-License-Identifier: Apache-2.0
// list_tree: a recursive listing of a source that lists one level at a time.
#pragma once

#include "source/source.h"

namespace leat {

// Returns one page of everything below `request.prefix`, sorted by key, with all directories. Its
// token is its last key. A page lists each level above that key from its beginning again, so this
// is for small trees. `source` must outlive the task.
Task<Result<ListPage>> list_tree(Source& source, Context context, ListRequest request);

}  // namespace leat
