// SPDX-License-Identifier: Apache-2.0
// FuseDoor: a FileSystem as a folder of this host, by the kernel's FUSE. Translates requests and
// nothing else: what can be answered in place is answered on the door's own threads, which never
// wait; everything else runs on the executor. One object is one mount. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "doors/fuse/feature_set.h"
#include "runtime/executor.h"
#include "runtime/shared_records.h"
#include "vfs/file_system.h"

namespace leat {

class ConnectionRecord;

struct FuseDoorOptions {
  std::string mountpoint{};      // an existing directory
  std::string fs_name = "leat";  // shown as the source in /proc/mounts
  bool allow_other = false;      // other users too; file modes decide (default_permissions)
  // The mount is `ro`: the kernel refuses changes, and programs see it. Without it the door refuses
  // them; a connection of an earlier version may be like that.
  bool read_only = true;
  bool passthrough = true;  // complete files are read by the kernel itself, where it can
  bool io_uring = false;    // FUSE over io_uring, where the kernel offers it
  // Opens and closes are left out: the kernel reads what it has looked up. For many small files
  // that only change by new versions of their names. It excludes passthrough, and only a read-only
  // folder can have it, since nobody is asked before a write.
  bool no_open = false;
  FuseFeatureSet without{};  // what is not to be used though the kernel offers it
  // The kernel's read-ahead. 1 MiB is one READ request; larger lost (FACTS 1.1).
  uint64_t read_ahead_bytes = kMiB;
  unsigned threads = 0;  // 0: one per core
  // A request that nobody answers for so long, whatever became of the daemon and of its successors,
  // ends with the whole connection (kernel ≥ 6.14): nothing hangs for ever. Has to be far above
  // what a request may wait for a store. Zero: none.
  std::chrono::seconds request_timeout{900};
  // Where the mount's connection is written down as long as it lives; may be null, outlives the
  // door.
  ConnectionRecord* connections = nullptr;
  // What a successor needs to go on with the connection is kept there; null: it ends with the door.
  // Outlives the door, and is the file system's as well.
  SharedRecords* records = nullptr;
  // A predecessor's connection, with its `records`: the door goes on with it instead of mounting,
  // and closes it in any case. -1: there is none.
  int connection = -1;
  // Of such a connection: its name is gone (unmounted lazily), so whatever is mounted there is
  // another one.
  bool detached = false;
  // The mount is gone, by whomever. Called once, on a thread of the door: it must not destroy it.
  std::function<void()> on_unmounted{};
};

// What `passthrough_off` says where nothing is wrong.
inline constexpr const char* kPassthroughNotWanted = "it was not asked for";
inline constexpr const char* kPassthroughWithoutOpens = "opens are left out (no_open)";

// What the kernel gave, for doctor and status.
struct FuseFeatures {
  unsigned protocol_major = 0;
  unsigned protocol_minor = 0;
  bool passthrough = false;     // in use: offered, wanted, and not failed since
  std::string passthrough_off;  // why it is not
  bool no_open = false;         // offered and wanted
  bool io_uring = false;        // offered and wanted
  bool survives = false;        // a successor can go on with the connection
  bool readdirplus = false;
  bool parallel_directory_operations = false;
  uint64_t request_bytes_max = 0;
  uint64_t read_ahead_bytes = 0;  // 0: the kernel's default could not be changed
};

struct FuseDoorStats {
  uint64_t waiting_requests;       // not answered in place and still under way
  uint64_t passthrough_files;      // open now and read by the kernel itself
  uint64_t pending_invalidations;  // names that the kernel has still to be told of
};

class FuseDoor {
 public:
  // Returns when the mount can be used. `file_system` and `executor` must outlive the door. Blocks;
  // never call it on the executor's threads. kNotFound, kNotDirectory, kBusy (a dead mount is in
  // the way), kPermissionDenied, kUnsupported (no FUSE here), each with what to do.
  static Result<std::unique_ptr<FuseDoor>> mount(FuseDoorOptions options, FileSystem& file_system,
                                                 Executor& executor);
  // Ends the mount, if need be by force: programs that still have files open get errors. After
  // hand_over() the mount stays; a thread that tells the kernel of a name may then wait for what
  // only the successor answers, and the destructor for it: better not destroyed, the process ends.
  virtual ~FuseDoor() = default;

  // The connection, for whoever keeps it for a successor; -1 where none could go on with it:
  // without records, over io_uring, or with a kernel that sends nobody what was not answered
  // (before 6.9).
  virtual int connection() const = 0;
  // Takes no more requests, so that a successor can: waits for those under way for at most
  // `patience`; what is not answered then, nor ever will be here, the kernel sends it again.
  virtual void hand_over(std::chrono::milliseconds patience) = 0;

  // kBusy while files are open or someone's working directory is inside, unless `lazy`: then the
  // name goes now and open files are served until they are closed. kNotFound when it is gone
  // already. Blocks; not on the executor's threads. Where the folder can still be seen elsewhere (a
  // bind mount, another mount namespace) it is served on there, as after a lazy one.
  virtual Result<> unmount(bool lazy) = 0;
  // Until the kernel was told of every change that the file system has told of: true. Blocks as
  // long as the kernel goes on; false where it did not for ten seconds, since a request holds a
  // directory, or when `given_up` first.
  virtual bool tell_kernel(const std::stop_token& given_up) = 0;
  // Until the mount is gone and no open file is served any more.
  virtual void wait() = 0;
  virtual bool mounted() const = 0;
  // The connection lives: what is open, or mounted elsewhere, is served.
  virtual bool serving() const = 0;

  virtual FuseFeatures features() const = 0;
  virtual FuseDoorStats stats() const = 0;
};

}  // namespace leat
