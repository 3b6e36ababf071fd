// SPDX-License-Identifier: Apache-2.0
// Answers of a mount with a snapshot: from the mapped file only, never stale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog_entry.h"
#include "catalog/listing.h"

namespace leat {

// Returns the store id in snapshots of clusters. Each host has its own id for a cluster, which
// includes its token and worker addresses. The names in a snapshot are paths of the cluster's
// namespace and use this common id. Versions of files distinguish two clusters.
StoreId cluster_names_id();

// Returns the mount with its names from `snapshot`, or for null from the store, as before.
// kInvalidArgument if the snapshot is of another store or does not cover the mount.
Result<Mount> with_snapshot(const Mount& mount, SnapshotPtr snapshot);
// Returns the mount with another policy. A snapshot stays; the new freshness applies when it is
// released.
Mount with_policy(const Mount& mount, Policy policy);

// `path` lies below the mount's. Returns kNotFound, or kNotDirectory below a file.
Result<CatalogEntry> find_in_snapshot(const MountPtr& mount, std::string_view path);

// `path` is the mount's or below it; returns the same errors. `mounted` (sorted) is laid over the
// names.
Result<ListingPtr> list_snapshot(const MountPtr& mount, std::string_view path,
                                 std::vector<CatalogEntry> mounted);

}  // namespace leat
