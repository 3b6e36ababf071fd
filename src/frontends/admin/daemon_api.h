// SPDX-License-Identifier: Apache-2.0
// DaemonApi: operations of the admin server, and the plain data of the control socket. The
// composition root implements it; the server only translates.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/host_cache.h"
#include "frontends/admin/finding.h"
#include "model/file_filter.h"
#include "model/file_info.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

using OptionValues = std::map<std::string, std::string>;

struct MountRequest {
  std::string source{};     // as the user writes it
  std::string path{};       // the mount point, absolute
  OptionValues options{};   // of store and mount, besides those in the source's query
  std::string freshness{};  // empty: the default
  std::string snapshot{};   // name; empty: names come from the store
  // Options of paths below the mount (model/policy_settings.h): "train/a" → options.
  std::map<std::string, OptionValues> paths{};
  bool allow_other = false;
  bool passthrough = true;
  bool inspection = true;  // `.leat` in its root
  bool probe = true;       // list one page of the source before the mount appears
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t umask = 022;
};

// Changes of a mount that its store does not have yet (write=back). A read-only mount has none.
struct UnsentView {
  uint64_t changes = 0;
  uint64_t bytes = 0;
  uint64_t local_bytes = 0;   // of write=local, which are never sent
  double oldest_seconds = 0;  // age of the first of them
  std::string error{};        // of the last attempt; empty after a success

  friend bool operator==(const UnsentView&, const UnsentView&) = default;
};

struct MountView {
  std::string path{};
  std::string source{};    // without options
  OptionValues options{};  // endpoint, region, quota …; never a secret
  std::string freshness{};
  std::map<std::string, OptionValues> paths{};  // as in the request
  bool read_only = true;                        // the mount takes no writes
  bool allow_other = false;
  bool inspection = true;  // `.leat` is in its root
  // False for a mount inside another mount's directory, which shows it: it has no FUSE mount of its
  // own.
  bool own_fuse_mount = true;
  std::map<std::string, bool> features{};  // of the FUSE mount: passthrough, io_uring …
  std::string passthrough_off{};           // why passthrough is off
  uint64_t passthrough_files = 0;          // open now and read by the kernel itself
  bool empty = false;                      // set on creation if nothing is under the mount's prefix
  std::optional<UnsentView> unsent{};
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t umask = 022;

  friend bool operator==(const MountView&, const MountView&) = default;
};

// New options for a mount, or for a path in one.
struct MountChange {
  std::string path{};
  OptionValues set{};
  std::vector<std::string> unset{};  // back to their defaults
};

// Sends everything at and below `path` to the store.
struct FlushRequest {
  std::string path{};
};

struct FlushView {
  bool done = false;
  UnsentView unsent{};  // of the mounts there
};

struct MountMove {
  std::string from{};
  std::string to{};
};

struct CacheView {
  std::vector<DirectoryStats> directories{};
  PageStoreStats stats{};  // of all directories that are not down
  std::vector<PoolStats> pools{};
};

// A cluster that this daemon belongs to or mounts.
struct ClusterMembershipView {
  std::string role{};         // "worker" or "client".
  std::string name{};         // The cluster's; empty: not known yet.
  std::string address{};      // A worker's own, "10.0.0.7:7480"; a client's configured one.
  std::string worker{};       // Id, empty for a client.
  std::string leader{};       // Id, empty: no leader.
  int64_t epoch = 0;          // of the ring
  uint64_t workers = 0;       // In the ring, or present.
  uint64_t draining = 0;      // Part of `workers`.
  uint64_t down = 0;          // Same: in the ring without a lease.
  uint64_t unresponsive = 0;  // Same: did not answer the last requests.
  uint64_t refusing = 0;      // Same: refuse this worker's requests (secret or clock differs).
  double share = 0;           // This worker's part of the ring, 0 to 1.
  uint64_t mounts = 0;
  uint64_t mounts_rejected = 0;  // mounts that this worker does not serve
  std::string trouble{};         // with the registry, or with the workers; empty: none

  friend bool operator==(const ClusterMembershipView&, const ClusterMembershipView&) = default;
};

// A store that answers no request now (StoreHealth).
struct UnavailableView {
  std::string store{};   // "s3://bucket"
  double seconds = 0;    // since its first failure after its last answer
  uint64_t waiting = 0;  // requests that wait for it
  std::string reason{};  // of its last failure

  friend bool operator==(const UnavailableView&, const UnavailableView&) = default;
};

struct DaemonStatus {
  std::string version{};
  int pid = 0;
  int supervisor_pid = 0;  // process that starts the next daemon; 0: none
  uint64_t restarts = 0;   // daemons before this one, since the supervisor started
  double uptime_seconds = 0;
  uint64_t rss_bytes = 0;
  uint64_t open_files = 0;
  uint64_t open_files_max = 0;
  std::string metrics_address{};  // empty: not listening, and the note has the reason
  std::string metrics_note{};
  std::string log_file{};  // empty: standard error
  CacheView cache{};
  uint64_t memory_bytes = 0;  // of ranges in flight or just fetched
  uint64_t memory_bytes_max = 0;
  uint64_t requests_in_flight = 0;
  std::map<std::string, std::string> options{};  // of the daemon, in configuration syntax
  std::map<std::string, double> counters{};      // name{labels} → value, of all modules
  std::vector<MountView> mounts{};
  std::vector<ClusterMembershipView> clusters{};  // its own first
  std::vector<UnavailableView> unavailable{};     // stores, by name
};

// Metrics of the daemon's last hour, for charts. Ages use the daemon's clock, so that a browser's
// clock does not matter.
struct HistoryView {
  int pid = 0;
  double step_seconds = 0;                              // approximate sample interval
  std::vector<double> ages_seconds{};                   // of each sample, the oldest first
  std::map<std::string, std::vector<double>> series{};  // name{labels} → one value for each sample
};

// Lets the next daemon take over.
struct UpgradeRequest {
  std::string executable{};  // absolute path; empty: the present program
};

struct EvictRequest {
  std::string mount{};              // path; empty: all mounts, except pinned objects
  std::optional<uint64_t> bytes{};  // none: everything
};

struct EvictView {
  uint64_t bytes = 0;  // evicted bytes
};

// A snapshot on this host.
struct SnapshotView {
  std::string name{};
  std::string file{};
  std::string source{};  // "s3://bucket/prefix/"
  WallTime created{};
  uint64_t files = 0, directories = 0, bytes = 0;
  uint64_t skipped = 0;                // keys that cannot be names
  uint64_t file_bytes = 0;             // of the snapshot itself
  std::vector<std::string> used_by{};  // paths of mounts
  std::string broken{};                // why it cannot be used; otherwise empty

  friend bool operator==(const SnapshotView&, const SnapshotView&) = default;
};

// Switches the names of the mount at `path` to the snapshot; an empty name: to the store.
struct SnapshotUse {
  std::string path{};
  std::string name{};
};

struct JobRequest {
  std::string kind{};         // "load", "free", "verify", "snapshot", "refresh", "copy"
  std::string path{};         // Verify: "/", because it covers the whole cache.
  std::string name{};         // Snapshot: its new name.
  FileSelection selection{};  // Load, free, copy: which files below the path.
  std::string to{};           // Copy: a path of the namespace, or a store's URL.
  std::string overwrite{};    // Copy: "never" (also ""), "if-different" or "always".
  bool verify = false;        // Load: verify all data at the end.
  // For load and copy:
  uint64_t bandwidth = 0;  // bytes a second requested from stores; 0: no limit
  unsigned requests = 0;   // concurrent; 0: chosen automatically
  // Load of a cluster: behind the readers of an epoch (JobSpec::background).
  bool background = false;

  friend bool operator==(const JobRequest&, const JobRequest&) = default;
};

// The last error of a lookup, listing, read or change of a path.
struct ErrorView {
  WallTime time{};
  std::string mount{};  // the mount point
  std::string path{};   // in it; "." for the mount point itself
  StatusCode code = StatusCode::kInternal;
  std::string reason{};
};

struct ChangeView {
  std::string kind{};  // "added", "changed", "removed"
  std::string path{};
  friend bool operator==(const ChangeView&, const ChangeView&) = default;
};

// Keys of a directory that cannot be names of files.
struct SkippedView {
  std::string directory{};
  uint64_t names = 0;
  std::string example{};  // one of them, as the store writes it; may be empty

  friend bool operator==(const SkippedView&, const SkippedView&) = default;
};

struct JobView {
  uint64_t id = 0;
  std::string kind{};
  std::string path{};
  // "running", "done", "failed", "cancelled"; of a cluster's jobs also "waiting".
  std::string state{};
  bool planned = false;    // the totals are final
  bool automatic = false;  // load: behind the readers of an epoch; nobody requested it
  uint64_t files_total = 0, files_done = 0, files_failed = 0;
  uint64_t bytes_total = 0, bytes_done = 0;
  uint64_t bytes_fetched = 0;   // part of bytes_done, fetched from the store
  uint64_t bytes_verified = 0;  // of a load that verifies
  // load: on mounts without a cache; not part of the other numbers.
  uint64_t files_uncached = 0, bytes_uncached = 0;
  uint64_t files_present = 0;  // copy: part of files_done, already present
  // load: keys that cannot be names of files, and the first directories with such keys.
  uint64_t names_skipped = 0;
  std::vector<SkippedView> skipped{};
  // refresh: names, and the first of them; directories end in '/'.
  uint64_t added = 0, changed = 0, removed = 0;
  std::vector<ChangeView> changes{};
  double seconds = 0;
  std::optional<WallTime> started{};  // of the run; of the request while a cluster job waits
  uint64_t errors_total = 0;          // failed files and directories, and errors of the job itself
  std::vector<std::string> errors{};  // the first few
  std::optional<StatusCode> code{};   // reason of an incomplete job

  bool ended() const { return state != "running" && state != "waiting"; }
  // For people: the kind, and whether it was requested.
  std::string title() const { return automatic ? kind + " (auto)" : kind; }
  friend bool operator==(const JobView&, const JobView&) = default;
};

// An effective option of the daemon.
struct OptionView {
  std::string name{};
  std::string value{};      // in configuration syntax
  std::string origin{};     // "default", "file", "environment", "command line"
  std::string place{};      // "/etc/leat/leat.toml:3", "LEAT_CACHE_SIZE"; empty for defaults
  bool reloadable = false;  // can change by a reload

  friend bool operator==(const OptionView&, const OptionView&) = default;
};

// Result of a reload: names of options.
struct ReloadView {
  std::vector<std::string> changed{};  // changed and in effect
  std::vector<std::string> waiting{};  // take effect in the next daemon
};

class DaemonApi {
 public:
  virtual ~DaemonApi() = default;
  // Returns when the mount is usable.
  virtual Task<Result<MountView>> mount(Context context, MountRequest request) = 0;
  // Returns when it is unmounted.
  virtual Task<Result<>> unmount(Context context, std::string path, bool lazy) = 0;
  // Both return when the change is in effect, with the mount.
  virtual Task<Result<MountView>> change_mount(Context context, MountChange change) = 0;
  virtual Task<Result<MountView>> move_mount(Context context, MountMove move) = 0;
  // Waits a second at most. Fails with the first attempt of the store that fails.
  virtual Task<Result<FlushView>> flush(Context context, FlushRequest request) = 0;
  virtual std::vector<MountView> mounts() const = 0;
  virtual DaemonStatus status() const = 0;
  virtual HistoryView history() const = 0;
  // Returns the errors of all mounts, the newest first.
  virtual std::vector<ErrorView> errors() const = 0;
  // Returns conditions of the daemon that may need action.
  virtual Findings findings() const = 0;
  // Returns once the job is running.
  virtual Result<JobView> start_job(JobRequest request) = 0;
  virtual std::vector<JobView> jobs() const = 0;
  virtual Result<JobView> job(uint64_t id) const = 0;
  // Returns the job as it was; an ended job does not change.
  virtual Result<JobView> cancel_job(uint64_t id) = 0;
  // Returns a page of the cached objects; see HostCache.
  virtual Task<Result<ObjectPage>> cached_objects(Context context, std::string after,
                                                  size_t limit) = 0;
  // kNotFound if nothing of that mount is cached.
  virtual Task<Result<EvictView>> evict(Context context, EvictRequest request) = 0;
  virtual Task<Result<std::vector<SnapshotView>>> snapshots(Context context) = 0;
  virtual Task<Result<>> use_snapshot(Context context, SnapshotUse use) = 0;
  // kBusy while a mount uses it.
  virtual Task<Result<>> remove_snapshot(Context context, std::string name) = 0;
  virtual std::vector<OptionView> options() const = 0;
  // Reads file and environment again; an error in them changes nothing.
  virtual Result<ReloadView> reload_options() = 0;
  // Returns before the upgrade. kUnsupported if no supervisor would start the next daemon.
  virtual Result<> upgrade(UpgradeRequest request) = 0;
  // Starts the shutdown and returns.
  virtual void shut_down() = 0;
};

}  // namespace leat
