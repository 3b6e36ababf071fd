// SPDX-License-Identifier: Apache-2.0
// membership_of: the summary of a cluster for `leat status`.
#pragma once

#include <string>

#include "daemon/cluster/cluster_client.h"
#include "frontends/admin/cluster_api.h"

namespace leat {

// For a worker. The caller adds its address.
ClusterMembershipView membership_of(const ClusterStatusView& status);
// For a client that found its workers through `address`.
ClusterMembershipView membership_of(ClusterClient& client, std::string address);

}  // namespace leat
