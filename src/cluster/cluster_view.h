// SPDX-License-Identifier: Apache-2.0
// ClusterView: what a cluster is at one moment: who is there, who holds what, what is mounted.
// Immutable; whoever reads or routes takes one and goes by it to its end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/registry.h"
#include "cluster/ring.h"
#include "model/worker_info.h"

namespace leat {

// Workers that may answer for one stripe, at most: the first candidates of the ring.
inline constexpr uint32_t kReplicasMax = 4;

// A store's prefix at a path of the cluster's namespace. Its options are those of a mount on one
// host, but none of them is a secret: workers have the credentials, clients need none.
struct ClusterMount {
  std::string path{};    // normalised, "/data"
  std::string source{};  // "s3://bucket/prefix"
  std::map<std::string, std::string> options{};
  // What the worker that made it found of the source, so that clients need not know stores.
  StoreId store{};
  std::string prefix{};   // of keys: empty, or ends in '/'
  uint32_t replicas = 1;  // workers that answer for each stripe, 1 to kReplicasMax

  friend bool operator==(const ClusterMount&, const ClusterMount&) = default;
};

struct ClusterView {
  RegistryRevision revision = 0;  // 0: nothing is known yet
  std::string cluster{};          // its name
  Ring ring{};
  // Where the ring's members were last, those that are gone included. Workers only.
  std::map<WorkerId, std::string> ring_addresses{};
  // Of the epoch before, for as long as its owners may still have what others own now.
  std::optional<Ring> previous{};
  std::map<WorkerId, WorkerInfo> workers{};  // whose lease stands
  std::map<std::string, ClusterMount> mounts{};
  std::string leader{};  // the worker's id in hexadecimal, empty where nobody leads

  // The mount that is responsible for the path: the longest that it is at or below; null above all.
  const ClusterMount* mount_of(std::string_view path) const;
  const WorkerInfo* worker(const WorkerId& id) const {
    auto found = workers.find(id);
    return found == workers.end() ? nullptr : &found->second;
  }
};
using ClusterViewPtr = std::shared_ptr<const ClusterView>;

// The document of GET /peer/v1/cluster (docs/formats/peer-protocol.md).
std::string encode_view(const ClusterView& view);
Result<ClusterView> decode_view(std::string_view text);

// Where a view comes from: the registry for workers, a worker for clients. Thread-safe.
class ClusterMap {
 public:
  virtual ~ClusterMap() = default;
  // Never null; of revision 0 before anything is known.
  virtual ClusterViewPtr view() const = 0;
  // The first one with a revision above `after`, or that takes its place in the middle of the wait
  // with a revision below: the registry was restored from a backup.
  virtual Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) = 0;
};

}  // namespace leat
