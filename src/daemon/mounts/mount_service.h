// SPDX-License-Identifier: Apache-2.0
// MountService: the mounts of this daemon: catalog entries, and the FUSE servers that serve them. A
// mount inside another one needs no server, since the outer server serves the namespace below
// it. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "daemon/takeover/takeover_state.h"
#include "fetch/fetcher.h"
#include "frontends/admin/daemon_api.h"
#include "frontends/fuse/fuse_server.h"
#include "model/mount_options.h"
#include "model/policy_settings.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "telemetry/metrics.h"
#include "vfs/inspection_file_system.h"

namespace leat {

struct MountServiceOptions {
  bool io_uring = false;
  unsigned threads = 0;
  FuseFeatureSet disabled_features{};  // kernel features that FUSE servers do not use
  // Reject new mounts once the last one is removed.
  bool close_when_empty = false;
  // Record of the mounts' connections; may be null, outlives the service.
  ConnectionRecord* connections = nullptr;
  // Keeps the mounts for a successor; may be null, outlives the service.
  TakeoverState* takeover_state = nullptr;
  // Prefetch budget of all mounts; may be null, outlives the service.
  WindowBudget* windows = nullptr;
  // Loads trees that are read at random, for mounts with load=auto; may be null, outlives the
  // service.
  EpochListener* epochs = nullptr;
  // On a local disk: the content of files that are being written, in files without a name. Also,
  // in `writes`, the changes that stores do not have yet, of at most so many bytes a mount.
  std::string staging_directory{};
  uint64_t staging_bytes_max = UINT64_MAX;
  // Called when the last mount is removed, on any thread.
  std::function<void()> on_empty;
  // Returns the content of `.leat` for a mount at `folder` with `files`; null: no mount has one.
  // Called at mount. Its result is destroyed before the service and `files`.
  std::function<std::vector<VirtualFile>(const std::string& folder, const FileSystem& files)>
      inspection{};
  // Opens a leat:// source; null: not supported. Without `must_respond` it does not wait for a
  // worker.
  std::function<Task<Result<SourcePtr>>(Context, StoreUrl, bool must_respond)> open_cluster{};
  Clock::duration probe_timeout = std::chrono::seconds(30);
  // Mounts a file system in the kernel; tests have one without a kernel. Blocks.
  std::function<Result<std::unique_ptr<FuseServer>>(FuseServerOptions, FileSystem&, Executor&)>
      mount_fuse = &FuseServer::mount;
};

// Error of a mount after the service was closed; the client must start another daemon.
inline constexpr const char* kDaemonEnding = "the daemon is ending";

class MountService {
 public:
  // `store` may be null. All must outlive the service. stop() must have ended before its
  // destruction.
  MountService(MountServiceOptions options, Catalog& catalog, Fetcher& fetcher, PageStore* store,
               SourceTable& sources, Executor& executor);
  ~MountService();

  // `snapshot`: the source of its names; null: the store.
  Task<Result<MountView>> mount(Context context, MountRequest request,
                                SnapshotPtr snapshot = nullptr);
  // Takes over a mount of a predecessor, without a request to its store. `snapshot` as above. First
  // call restore() for all, so that each is known before requests arrive; then restore_frontend()
  // for all.
  Task<Result<>> restore(Context context, SavedMount saved, SnapshotPtr snapshot);
  Task<Result<>> restore_frontend(std::string path);
  // Call after the last of them. Until then the predecessor's list stays unchanged, in case this
  // process dies meanwhile.
  void finish_restore();
  // Changes the mount that contains the path. Returns when the kernel was notified, or after a
  // timeout as below.
  Task<Result<MountView>> change(Context context, MountChange change);
  // kBusy if it is in use, or has a mount inside. Keeps source and options.
  Task<Result<MountView>> move(Context context, MountMove move);
  Task<Result<>> unmount(Context context, std::string path, bool lazy);
  // As DaemonApi says. Mounts that take no writes have nothing to send.
  Task<Result<FlushView>> flush(Context context, FlushRequest request);
  std::vector<MountView> views() const;
  // Returns the recent errors of each folder (vfs/recent_errors.h), newest first.
  std::vector<ErrorView> errors() const;
  // Updates the view of a mount after its policy has changed in the catalog. No effect without such
  // a mount.
  void refresh_view(const std::string& path);
  // Makes the mount at `path` use `snapshot`, with this name, from now on; null and "": the store.
  // Returns when the kernel was notified, or has not responded for 10 s. Errors: kNotFound without
  // such a mount, kBusy if it changes all the time, else errors of Catalog::use_snapshot().
  Task<Result<>> use_snapshot(Context context, std::string path, std::string name,
                              SnapshotPtr snapshot);

  // Revalidates every name at and below `path` that the kernel caches, and invalidates those that
  // differ from the catalog. Returns when the kernel was notified, or has not responded for 10 s.
  Task<> revalidate_held(std::string path);

  // Makes the kernels drop cached bytes of versions with corrupt bytes in the cache. Returns when
  // they were notified, or have not responded for 10 s.
  Task<> bytes_dropped(FileIdSet files);

  // Ends waits for notifications of the kernel, which continue in the background; for a daemon that
  // shuts down.
  void cancel_waits() { stopping_.request_stop(); }

  // Closes as after the last mount, if there is none; for an unused daemon.
  void close_if_empty();
  // Rejects new mounts, unmounts all, those in use by force, and returns when they are removed.
  Task<> stop();
  // Like stop(), but the mounts stay for a successor: their servers accept no more requests. The
  // service must not be destroyed then (FuseServer).
  Task<> prepare_takeover();

 private:
  struct Entry {
    MountView view;
    MountRequest request;  // as it was mounted
    StoreUrl url;
    PolicySettings settings;  // present values
    MountOptions options;     // of the server that serves it
    // Its requests may wait longer than the kernel's default limit.
    bool has_long_timeout = false;
    SourcePtr source;
    std::string snapshot_id;  // of the snapshot in use; empty: none
    std::optional<TakeoverState::SavedConnection>
        inherited;                            // from a predecessor, until the server is created
    uint64_t connection_number = 0;           // in TakeoverState; 0: not saved
    std::shared_ptr<FileSystem> file_system;  // null for a nested mount
    std::shared_ptr<FuseServer> server;
    // Sources of removed mounts, lazily unmounted or inside this one: this server still serves
    // files opened there, until it ends.
    std::map<StoreId, SourcePtr> lingering_sources;
    bool detached = false;                 // lingering since a predecessor
    bool busy = true;                      // owned by the task that set it
    bool shown = false;                    // visible, whatever operation is running on it
    unsigned pending_invalidations = 0;    // changes that the kernel was not notified of
    unsigned abandoned_invalidations = 0;  // part of `pending_invalidations` that no task waits for
    std::atomic<bool> ended = false;       // the connection of its server has ended

    // Its server still serves open files, or another mount, after the unmount.
    bool lingers() const { return server != nullptr && server->serving(); }
  };
  using EntryPtr = std::shared_ptr<Entry>;

  static Status ending();
  static std::string id_of(const SnapshotPtr& snapshot);
  static Result<StoreUrl> parse_source(const MountRequest& request);
  static MountView view_of(const MountRequest& request, const StoreUrl& url);
  // Adds the entry to views(), and returns its present state.
  MountView show(const EntryPtr& entry);
  static MountView current_view(const Entry& entry);  // the caller holds mutex_
  Result<EntryPtr> reserve(const MountRequest& request, const StoreUrl& url);
  // Does all but the mount of the folder.
  Task<Result<>> fill(Context context, EntryPtr entry, StoreUrl url, SnapshotPtr snapshot);
  static Task<Result<>> check_target(Context context, StoreUrl url, std::string path);
  // Notifies the kernel of changes in the mount at `path`. Returns false if not all could be
  // notified, because a request holds a folder or the daemon shuts down.
  Task<bool> invalidate_kernel(std::string path);
  // Runs notifications, or waits for them, on a blocking thread; few at once.
  Task<bool> run_notification(std::function<bool()> work);
  // mark_invalidation_pending() records that a successor must notify the kernel of this mount,
  // until clear_invalidation_pending(). So changes are not lost if this process ends before the
  // notification.
  void mark_invalidation_pending(const EntryPtr& entry);
  void clear_invalidation_pending(const EntryPtr& entry);
  Task<> invalidate_and_clear(EntryPtr entry, std::string path);
  Task<> invalidate_whole_mount(Gate::Holder holder, EntryPtr entry);
  static Policy owner_of(const MountRequest& request);
  Task<Result<>> prepare_target(EntryPtr entry);
  Task<Result<SourcePtr>> open_store(Context context, StoreUrl url, std::string salt);
  void set_pools(const std::map<PoolId, PoolPolicy>& pools);
  static void show_settings(MountView& view, const PolicySettings& settings);
  // Returns whether any object is under the prefix.
  Task<Result<bool>> probe(Context context, SourcePtr source, StoreUrl url);
  Task<Result<>> start_server(EntryPtr entry);
  Task<Result<>> restore_lingering(Context context, SavedMount saved);
  Task<> drop(EntryPtr entry);
  // Null for a mount that takes no writes, or has no file system of its own.
  static NamespaceChanges* changes_of(const Entry& entry);
  static UnsentChanges unsent_of(const Entry& entry);
  // Block. The second one ends writing.
  void save_all(const Entry& entry);
  void save_written(const Entry& entry);
  // Blocks.
  Result<std::unique_ptr<FileSystem>> make_file_system(const EntryPtr& entry,
                                                       MemfdRecordTable* records);
  // Returns the directory for changes that the store of a mount does not have yet.
  std::string journal_directory(const std::string& folder) const;
  Result<> inherit(const EntryPtr& entry, uint64_t number);
  Result<> save_connection(const EntryPtr& entry, const MemfdRecordTable& records);
  // Writes the state for a successor. Call after each change of a mount.
  void save_state();
  static MountRequest current_request(const Entry& entry);
  std::vector<EntryPtr> close();
  FuseServerOptions server_options(const EntryPtr& entry);

  enum class NestedMounts : uint8_t { kReject, kKeep };  // treatment of mounts inside
  enum class MountMatch : uint8_t {
    kExact,
    kNearest
  };  // exactly there, or the nearest at or above
  // Waits for the present owner of the entry.
  Task<Result<EntryPtr>> claim(Context context, std::string path, NestedMounts inside,
                               MountMatch at = MountMatch::kExact);
  // Returns nothing if another task owns the entry.
  std::optional<Result<EntryPtr>> try_claim(const std::string& path, NestedMounts inside);
  bool restoring() const;
  std::string nearest_mount(const std::string& path) const;
  Task<Result<>> change_claimed(EntryPtr entry, MountChange change);
  Task<Result<>> move_claimed(Context context, EntryPtr from, EntryPtr to);
  void keep_for_open_files(const EntryPtr& entry);
  // Removes an entry with a stopped server from the table.
  Task<> remove_entry(EntryPtr entry);
  void unclaim(const EntryPtr& entry);
  EntryPtr outer_mount(const EntryPtr& entry);
  void keep_source_for(const EntryPtr& holder, const EntryPtr& entry);
  Task<Result<>> stop_server(EntryPtr entry, bool lazy);
  Task<> reap(Gate::Holder holder, std::weak_ptr<Entry> ended);
  Task<> destroy(EntryPtr entry);
  void on_catalog_change(const CatalogChange& change);
  Task<Result<>> flush_stores(Context context, std::string path);
  std::vector<std::shared_ptr<FileSystem>> file_systems() const;
  UnsentChanges all_unsent() const;
  // Those that show something at or below the path.
  std::vector<std::shared_ptr<FileSystem>> file_systems_at(const std::string& path) const;

  const MountServiceOptions options_;
  Catalog& catalog_;
  Fetcher& fetcher_;
  PageStore* const store_;
  SourceTable& sources_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  // A task that waits for a kernel occupies a blocking thread, and may depend on other
  // blocking calls.
  Semaphore notifications_{4};

  std::mutex save_mutex_;     // taken before mutex_ and that of TakeoverState
  mutable std::mutex mutex_;  // taken before those of file systems
  bool closed_ = false;
  bool restoring_;  // until finish_restore()
  std::map<std::string, EntryPtr> entries_;
  std::vector<EntryPtr> stopped_for_takeover_;
  std::set<EntryPtr> lingering_;  // lazily unmounted, still serve open files
  const Gauge unsent_changes_, unsent_bytes_;
};

}  // namespace leat
