// SPDX-License-Identifier: Apache-2.0
// FuseServer: mounts a FileSystem at a directory of this host with the kernel's FUSE. Only
// translates requests. The server's own threads answer what needs no wait; everything else runs on
// the executor. One object is one mount. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "frontends/fuse/feature_set.h"
#include "runtime/executor.h"
#include "runtime/memfd_record_table.h"
#include "vfs/file_system.h"

namespace leat {

class ConnectionRecord;

struct FuseServerOptions {
  std::string mountpoint{};      // an existing directory
  std::string fs_name = "leat";  // shown as the source in /proc/mounts
  bool allow_other = false;      // other users, too; file modes decide (default_permissions)
  // Mounts with `ro`: the kernel refuses changes, and programs see the flag. Otherwise this server
  // refuses them, as on a connection created by an earlier version.
  bool read_only = true;
  bool passthrough = true;  // the kernel reads complete files itself, if it can
  bool io_uring = false;    // FUSE over io_uring, if offered
  // The kernel sends no OPEN and RELEASE and reads nodes directly. For many small files that change
  // only by new versions of their names. Excludes passthrough and needs a read-only mount, because
  // nothing checks an open for writing.
  bool no_open = false;
  FuseFeatureSet disabled_features{};  // features to ignore although offered
  // The kernel's read-ahead. 1 MiB is one READ request; larger values measured slower.
  uint64_t read_ahead_bytes = kMiB;
  unsigned threads = 0;  // 0: one per core
  // A request without an answer for this long, from the daemon or its successors, ends the whole
  // connection (kernel ≥ 6.15), so that nothing hangs for ever. Must be far above the longest wait
  // for a store. Zero: no limit.
  std::chrono::seconds request_timeout{900};
  // Record of the mount's connection during its life; may be null. Must outlive the server.
  ConnectionRecord* connections = nullptr;
  // State that a successor needs to take over the connection; null: the connection ends with the
  // server. Must outlive the server; shared with the file system.
  MemfdRecordTable* records = nullptr;
  // Connection of a predecessor, with its `records`: the server takes it over instead of mounting,
  // and closes it in any case. -1: none.
  int connection = -1;
  // For such a connection: it was unmounted lazily, so a mount at that path is another one.
  bool detached = false;
  // Called once, on a server thread, when the mount has ended for any reason. Must not destroy the
  // server.
  std::function<void()> on_unmounted{};
};

// Values of `passthrough_off` that are no error.
inline constexpr const char* kPassthroughNotRequested = "it was not requested";
inline constexpr const char* kPassthroughExcludedByNoOpen = "opens are disabled (no_open)";

// Features in use, for doctor and status.
struct FuseFeatures {
  unsigned protocol_major = 0;
  unsigned protocol_minor = 0;
  bool passthrough = false;     // in use: offered, wanted, and not failed since
  std::string passthrough_off;  // reason if not in use
  bool no_open = false;         // offered and wanted
  bool io_uring = false;        // offered and wanted
  bool survives = false;        // a successor can take over the connection
  bool readdirplus = false;
  bool parallel_directory_operations = false;
  uint64_t request_bytes_max = 0;
  uint64_t read_ahead_bytes = 0;  // 0: the kernel's default could not be changed
};

struct FuseServerStats {
  uint64_t pending_requests;       // not answered inline and still in flight
  uint64_t passthrough_files;      // open now and read by the kernel itself
  uint64_t pending_invalidations;  // names not sent to the kernel yet
};

class FuseServer {
 public:
  // Returns when the mount is usable. `file_system` and `executor` must outlive the server. Blocks;
  // must not run on the executor's threads. Errors are kNotFound, kNotDirectory, kBusy (a dead
  // mount is in the way), kPermissionDenied and kUnsupported (no FUSE here), each with the remedy.
  static Result<std::unique_ptr<FuseServer>> mount(FuseServerOptions options,
                                                   FileSystem& file_system, Executor& executor);
  // Ends the mount, by force if needed: programs with open files get errors. After
  // prepare_takeover() the mount stays. Then an invalidating thread may wait for an answer of the
  // successor, and the destructor waits for that thread. So end the process instead of destroying
  // the object.
  virtual ~FuseServer() = default;

  // Returns the connection, to keep it for a successor. Returns -1 if no takeover is possible:
  // without records, over io_uring, or with a kernel that does not resend (before 6.9).
  virtual int connection() const = 0;
  // Stops taking requests, so that a successor can. Waits up to `timeout` for those in flight; the
  // kernel resends the rest to the successor.
  virtual void prepare_takeover(std::chrono::milliseconds timeout) = 0;

  // kBusy while files are open or a working directory is inside, unless `lazy`: then the name is
  // removed now and open files are served until they are closed. Returns kNotFound if already
  // unmounted. Blocks; must not run on the executor's threads. If the directory is still visible
  // elsewhere (a bind mount, another mount namespace), it is served there, as after a lazy unmount.
  virtual Result<> unmount(bool lazy) = 0;
  // Waits until the kernel has received all invalidations so far; returns true. Blocks while the
  // kernel makes progress. Returns false after ten seconds without any, because a request holds a
  // directory, or once `cancel` is set.
  virtual bool flush_invalidations(const std::stop_token& cancel) = 0;
  // Waits until the mount has ended and no open file is served any more.
  virtual void wait() = 0;
  virtual bool mounted() const = 0;
  // True while the connection lives: open files and other mounts of it are served.
  virtual bool serving() const = 0;

  virtual FuseFeatures features() const = 0;
  virtual FuseServerStats stats() const = 0;
};

}  // namespace leat
