// SPDX-License-Identifier: Apache-2.0
// membership_of: what `leat status` says of a cluster, of all that is known of it.
#pragma once

#include <string>

#include "apps/cluster/cluster_client.h"
#include "doors/admin/cluster_host.h"

namespace leat {

// A worker's. Its address is for the caller to add.
ClusterMembershipView membership_of(const ClusterStatusView& status);
// A client's, that was told of the workers at `address`.
ClusterMembershipView membership_of(ClusterClient& client, std::string address);

}  // namespace leat
