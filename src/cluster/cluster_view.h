// SPDX-License-Identifier: Apache-2.0
// ClusterView: state of a cluster at one revision: workers, ring, mounts. Immutable; a request
// takes one view and uses it to its end.
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
#include "model/store_writing.h"
#include "model/worker_info.h"

namespace leat {

// Maximum number of workers that serve one stripe: the first candidates of the ring.
inline constexpr uint32_t kReplicasMax = 4;

// A store's prefix at a path of the cluster's namespace. Its options are those of a local mount but
// contain no secrets: workers have the credentials, clients need none.
struct ClusterMount {
  std::string path{};    // normalised, "/data"
  std::string source{};  // "s3://bucket/prefix"
  std::map<std::string, std::string> options{};
  // Store id as found by the worker that created the mount, so that clients need no store code.
  StoreId store{};
  std::string prefix{};   // of keys: empty, or ends in '/'
  uint32_t replicas = 1;  // workers that serve each stripe, 1 to kReplicasMax
  // Workers that hold a write before it is answered, up to kReplicasMax; the store gets it later.
  // 0: the store has it before the answer.
  uint32_t write_copies = 0;
  // How the store takes writes, as found by that worker. Nothing: an older release made the mount.
  std::optional<StoreWriting> writing{};

  friend bool operator==(const ClusterMount&, const ClusterMount&) = default;
};

// Workers that have the staged changes of a mount: writes that its store does not have yet. Each
// member has all changes that were acknowledged.
struct StagingRecord {
  std::string mount{};
  StoreId store{};
  Id128 log{};
  uint64_t term = 0;                // one more with each new primary
  WorkerId primary{};               // appends changes and sends them to the store
  std::vector<WorkerId> members{};  // the primary among them
  RegistryRevision changed = 0;     // revision of the entry; not part of the value

  bool has_member(const WorkerId& id) const;
  friend bool operator==(const StagingRecord&, const StagingRecord&) = default;
};

struct ClusterView {
  RegistryRevision revision = 0;  // 0: no view yet
  std::string cluster{};          // its name
  Ring ring{};
  // Last known addresses of the ring's members, including absent ones. Set on workers only.
  std::map<WorkerId, std::string> ring_addresses{};
  // Ring of the previous epoch, while its owners may still have cached what others own now.
  std::optional<Ring> previous{};
  std::map<WorkerId, WorkerInfo> workers{};  // those with a valid lease
  std::map<std::string, ClusterMount> mounts{};
  // By the paths of the mounts. Set on workers only.
  std::map<std::string, StagingRecord> staging{};
  std::string leader{};  // the worker's id in hexadecimal, empty without a leader

  // Returns the mount of the path: the longest mount path at or above it; null if there is none.
  const ClusterMount* mount_of(std::string_view path) const;
  const WorkerInfo* worker(const WorkerId& id) const {
    auto found = workers.find(id);
    return found == workers.end() ? nullptr : &found->second;
  }
};
using ClusterViewPtr = std::shared_ptr<const ClusterView>;

// Document of GET /peer/v1/cluster (docs/formats/peer-protocol.md).
std::string encode_view(const ClusterView& view);
Result<ClusterView> decode_view(std::string_view text);

// Source of views: the registry for workers, a worker for clients. Thread-safe.
class ClusterViewSource {
 public:
  virtual ~ClusterViewSource() = default;
  // Never null; revision 0 before the first view.
  virtual ClusterViewPtr view() const = 0;
  // Waits for a view with a revision above `after`. Also returns if the revision falls during the
  // wait, because the registry was restored from a backup.
  virtual Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) = 0;
};

}  // namespace leat
