// SPDX-License-Identifier: Apache-2.0
// Host: what the admin door can have done, and the plain data that travels over the control socket.
// The composition root implements it; the door only translates.
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
#include "doors/admin/finding.h"
#include "model/file_filter.h"
#include "model/file_info.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

using OptionValues = std::map<std::string, std::string>;

struct MountRequest {
  std::string source{};     // as people write it
  std::string path{};       // the folder, absolute
  OptionValues options{};   // of store and mount, beside those in the source's query
  std::string freshness{};  // empty: the default
  std::string snapshot{};   // name; empty: its names come from the store
  // What paths below the mount have of their own (model/policy_settings.h): "train/a" → options.
  std::map<std::string, OptionValues> paths{};
  bool allow_other = false;
  bool passthrough = true;
  bool inspection = true;  // `.leat` in its root
  bool probe = true;       // list one page of the source before the folder appears
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t umask = 022;
};

struct MountView {
  std::string path{};
  std::string source{};    // without options
  OptionValues options{};  // endpoint, region, quota …; never a secret
  std::string freshness{};
  std::map<std::string, OptionValues> paths{};  // as in the request
  bool read_only = true;                        // no mount takes writes yet
  bool allow_other = false;
  bool inspection = true;  // `.leat` is in its root
  // False for a mount inside another one's folder, which shows it: it has no door of its own.
  bool door = true;
  std::map<std::string, bool> features{};  // of the door: passthrough, io_uring …
  std::string passthrough_off{};           // why the kernel does not read files by itself
  uint64_t passthrough_files = 0;          // open now and read by the kernel itself
  bool empty = false;  // the mount has just been made, and nothing is under its prefix
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t umask = 022;

  friend bool operator==(const MountView&, const MountView&) = default;
};

// Other options for a mount, or for a path in one.
struct MountChange {
  std::string path{};
  OptionValues set{};
  std::vector<std::string> unset{};  // back to what they are without
};

struct MountMove {
  std::string from{};
  std::string to{};
};

struct CacheView {
  std::vector<DirectoryStats> directories{};
  PageStoreStats stats{};  // of all that are not down
  std::vector<PoolStats> pools{};
};

// A cluster of workers that this daemon has to do with.
struct ClusterMembershipView {
  std::string role{};        // "worker" of it, or "client"
  std::string name{};        // the cluster's; empty: nothing is known of it yet
  std::string address{};     // a worker's own, "10.0.0.7:7480"; a client's, of which it was told
  std::string worker{};      // id, empty for a client
  std::string leader{};      // id, empty: nobody leads
  int64_t epoch = 0;         // of the ring
  uint64_t workers = 0;      // that have a share, or are there
  uint64_t draining = 0;     // of these
  uint64_t gone = 0;         // likewise: not there, with a place in the ring
  uint64_t unanswering = 0;  // likewise: not asked now, since they did not answer
  uint64_t refusing = 0;     // likewise: refuse a worker's requests (its secret or clock differs)
  double share = 0;          // a worker's own of the ring, 0 to 1
  uint64_t mounts = 0;
  uint64_t mounts_refused = 0;  // of these, that this worker does not serve
  std::string trouble{};        // with the registry, or with the workers; empty: none

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

struct HostStatus {
  std::string version{};
  int pid = 0;
  int supervisor_pid = 0;  // who starts the next daemon; 0: nobody does
  uint64_t restarts = 0;   // daemons before this one, since the supervisor started
  double uptime_seconds = 0;
  uint64_t rss_bytes = 0;
  uint64_t open_files = 0;
  uint64_t open_files_max = 0;
  std::string metrics_address{};  // empty: not listening, and the note says why
  std::string metrics_note{};
  std::string log_file{};  // empty: standard error
  CacheView cache{};
  uint64_t memory_bytes = 0;  // of ranges under way or just fetched
  uint64_t memory_bytes_max = 0;
  uint64_t requests_in_flight = 0;
  std::map<std::string, std::string> options{};  // of the daemon, as its configuration writes them
  std::map<std::string, double> counters{};      // name{labels} → value, of every room
  std::vector<MountView> mounts{};
  std::vector<ClusterMembershipView> clusters{};  // its own first
  std::vector<UnavailableView> unavailable{};     // stores, by name
};

// Metrics of the daemon's last hour, for charts. Ages are by the daemon's clock, so that the clock
// of a browser elsewhere does not matter.
struct HistoryView {
  int pid = 0;
  double step_seconds = 0;                              // between samples, about
  std::vector<double> ages_seconds{};                   // of each sample, the oldest first
  std::map<std::string, std::vector<double>> series{};  // name{labels} → value at each of them
};

// The next daemon takes over.
struct UpgradeRequest {
  std::string executable{};  // absolute path; empty: the one that this daemon was started from
};

struct EvictRequest {
  std::string mount{};              // path; empty: of all, but what is pinned
  std::optional<uint64_t> bytes{};  // none: everything
};

struct EvictView {
  uint64_t bytes = 0;  // that went
};

// A snapshot that this host has.
struct SnapshotView {
  std::string name{};
  std::string file{};
  std::string source{};  // "s3://bucket/prefix/"
  WallTime created{};
  uint64_t files = 0, directories = 0, bytes = 0;
  uint64_t left_out = 0;               // keys that cannot be names
  uint64_t file_bytes = 0;             // of the snapshot itself
  std::vector<std::string> used_by{};  // paths of mounts
  std::string broken{};                // why it cannot be used; empty otherwise

  friend bool operator==(const SnapshotView&, const SnapshotView&) = default;
};

// From now on the names of the mount at `path` come from the snapshot; an empty name: from the
// store.
struct SnapshotUse {
  std::string path{};
  std::string name{};
};

struct JobRequest {
  std::string kind{};         // "load", "free", "verify", "snapshot", "refresh", "copy"
  std::string path{};         // verify: "/", since it is all of the cache
  std::string name{};         // snapshot: that it gets
  FileSelection selection{};  // load, free, copy: which files below the path
  std::string to{};           // copy: a path of the namespace, or a store's URL
  std::string over{};         // copy: what it replaces, "nothing" (also ""), "other" or "all"
  bool verify = false;        // load: read everything back at its end
  // Of a load or a copy:
  uint64_t bandwidth = 0;  // bytes a second asked of stores; 0: no limit
  unsigned requests = 0;   // at once; 0: as many as are good

  friend bool operator==(const JobRequest&, const JobRequest&) = default;
};

// Why a path could last not be looked up, listed, read or changed.
struct ErrorView {
  WallTime time{};
  std::string mount{};  // the folder
  std::string path{};   // in it; "." for the folder itself
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
  bool planned = false;  // the totals are final
  uint64_t files_total = 0, files_done = 0, files_failed = 0;
  uint64_t bytes_total = 0, bytes_done = 0;
  uint64_t bytes_fetched = 0;   // of these, asked of the store
  uint64_t bytes_verified = 0;  // of a load that verifies
  // load: of mounts that do not cache them; in none of the other numbers.
  uint64_t files_uncached = 0, bytes_uncached = 0;
  uint64_t files_there = 0;  // copy: of those done, found there
  // load: keys that cannot be names of files, and the first directories that have some.
  uint64_t names_skipped = 0;
  std::vector<SkippedView> skipped{};
  // refresh: names, and the first of them; directories end in '/'.
  uint64_t added = 0, changed = 0, gone = 0;
  std::vector<ChangeView> changes{};
  double seconds = 0;
  std::optional<WallTime> started{};  // none of a cluster's jobs, which say when they began
  std::vector<std::string> errors{};  // the first few
  std::optional<StatusCode> code{};   // of one that did not do everything: why

  bool ended() const { return state != "running" && state != "waiting"; }
  friend bool operator==(const JobView&, const JobView&) = default;
};

// An option of the daemon, as it is in effect.
struct OptionView {
  std::string name{};
  std::string value{};   // as a configuration writes it
  std::string origin{};  // "default", "file", "environment", "command line"
  std::string place{};   // "/etc/leat/leat.toml:3", "LEAT_CACHE_SIZE"; empty for defaults
  bool hot = false;      // a reload changes it

  friend bool operator==(const OptionView&, const OptionView&) = default;
};

// What another look at the configuration came to: names of options.
struct ReloadView {
  std::vector<std::string> changed{};  // and in effect
  std::vector<std::string> waiting{};  // for the next daemon
};

class Host {
 public:
  virtual ~Host() = default;
  // Returns when the folder can be used.
  virtual Task<Result<MountView>> mount(Context context, MountRequest request) = 0;
  // Returns when the folder is gone.
  virtual Task<Result<>> unmount(Context context, std::string path, bool lazy) = 0;
  // Both return when the folder goes by it, and answer the mount.
  virtual Task<Result<MountView>> change_mount(Context context, MountChange change) = 0;
  virtual Task<Result<MountView>> move_mount(Context context, MountMove move) = 0;
  virtual std::vector<MountView> mounts() const = 0;
  virtual HostStatus status() const = 0;
  virtual HistoryView history() const = 0;
  // Of all mounts, the newest first.
  virtual std::vector<ErrorView> errors() const = 0;
  // Conditions of the daemon that may need action.
  virtual Findings findings() const = 0;
  // Returns as soon as the job runs.
  virtual Result<JobView> start_job(JobRequest request) = 0;
  virtual std::vector<JobView> jobs() const = 0;
  virtual Result<JobView> job(uint64_t id) const = 0;
  // The job as it was: one that had ended stays as it is.
  virtual Result<JobView> cancel_job(uint64_t id) = 0;
  // A part of what is cached; see HostCache.
  virtual Task<Result<ObjectPage>> cached_objects(Context context, std::string after,
                                                  size_t limit) = 0;
  // kNotFound where nothing of that mount is cached.
  virtual Task<Result<EvictView>> evict(Context context, EvictRequest request) = 0;
  virtual Task<Result<std::vector<SnapshotView>>> snapshots(Context context) = 0;
  virtual Task<Result<>> use_snapshot(Context context, SnapshotUse use) = 0;
  // kBusy while a mount uses it.
  virtual Task<Result<>> remove_snapshot(Context context, std::string name) = 0;
  virtual std::vector<OptionView> options() const = 0;
  // Reads file and environment again; nothing changes when anything is wrong in them.
  virtual Result<ReloadView> reload_options() = 0;
  // Returns before it happens. kUnsupported where nobody would start the next one.
  virtual Result<> upgrade(UpgradeRequest request) = 0;
  // Starts to end the process and returns.
  virtual void shut_down() = 0;
};

}  // namespace leat
