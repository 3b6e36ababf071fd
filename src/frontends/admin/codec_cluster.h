// SPDX-License-Identifier: Apache-2.0
// JSON of clusters, both ways, as in codec.h.
#pragma once

#include "frontends/admin/cluster_api.h"
#include "frontends/admin/codec.h"

namespace leat {

void decode(const Json& json, ClusterWorkerView& worker);
void decode(const Json& json, ClusterMountView& mount);
void decode(const Json& json, ClusterStatusView& status);
void decode(const Json& json, ClusterMembershipView& membership);
void decode(const Json& json, ClusterMountRequest& request);
void decode(const Json& json, ClusterDrainRequest& request);
void decode(const Json& json, ClusterJobRequest& request);
void decode(const Json& json, ClusterJobView& job);

Json to_json(const ClusterWorkerView& worker);
Json to_json(const ClusterMountView& mount);
Json to_json(const ClusterDrainView& drain);
Json to_json(const ClusterStatusView& status);
Json to_json(const ClusterMembershipView& membership);
Json to_json(const ClusterMountRequest& request);
Json to_json(const ClusterDrainRequest& request);
Json to_json(const ClusterJobRequest& request);
Json to_json(const ClusterJobView& job);

}  // namespace leat
