// SPDX-License-Identifier: Apache-2.0
// What a mount says whose names come from a snapshot: the mapped file alone, and for ever.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog_entry.h"
#include "catalog/listing.h"

namespace leat {

// What snapshots of clusters are of. A host knows a cluster by an id of its own, which its token
// and the addresses of workers are part of, and the names in it, which are paths of its namespace,
// by this one. Of two clusters the versions of files tell.
StoreId cluster_names_id();

// The same mount with its names from `snapshot`, or with null from the store, as before.
// kInvalidArgument where the snapshot is of another store or not of all that is mounted.
Result<Mount> with_snapshot(const Mount& mount, SnapshotPtr snapshot);
// The same mount with another policy. A snapshot stays, and the freshness is for when it does not.
Mount with_policy(const Mount& mount, Policy policy);

// `path` lies below the mount's; kNotFound, or kNotDirectory below a file.
Result<CatalogEntry> find_in_snapshot(const MountPtr& mount, std::string_view path);

// `path` is the mount's or below it; the same errors. `mounted` (sorted) stands over the names.
Result<ListingPtr> list_snapshot(const MountPtr& mount, std::string_view path,
                                 std::vector<CatalogEntry> mounted);

}  // namespace leat
