// SPDX-License-Identifier: Apache-2.0
// JSON of the cache and of snapshots, as in codec.h. Private to this module.
#pragma once

#include "frontends/admin/codec.h"

namespace leat {

void decode(const Json& json, CacheView& cache);
void decode(const Json& json, CachedListView& list);
void decode(const Json& json, EvictRequest& request);
void decode(const Json& json, EvictView& view);
void decode(const Json& json, SnapshotView& snapshot);
void decode(const Json& json, SnapshotUse& use);

}  // namespace leat
