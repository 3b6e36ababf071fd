// SPDX-License-Identifier: Apache-2.0
// MountService: the mounts of this daemon: catalog entries, and the FUSE doors that serve them. A
// mount inside another one's folder needs no door, since the outer door serves the namespace below
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

#include "apps/daemon/kept_mounts.h"
#include "catalog/catalog.h"
#include "doors/admin/host.h"
#include "doors/fuse/fuse_door.h"
#include "fetch/fetcher.h"
#include "model/folder_settings.h"
#include "model/policy_settings.h"
#include "runtime/activity.h"
#include "runtime/executor.h"
#include "runtime/semaphore.h"
#include "vfs/inspected_file_system.h"

namespace leat {

struct MountServiceOptions {
  bool io_uring = false;
  unsigned threads = 0;
  FuseFeatureSet without{};  // kernel features that doors do not use
  // Reject new mounts once the last one is removed.
  bool close_when_empty = false;
  // Record of the mounts' connections; may be null, outlives the service.
  ConnectionRecord* connections = nullptr;
  // Keeps the mounts for a successor; may be null, outlives the service.
  KeptMounts* kept = nullptr;
  // Prefetch budget of all mounts; may be null, outlives the service.
  WindowBudget* windows = nullptr;
  // Called when the last mount is removed, on any thread.
  std::function<void()> on_empty;
  // Returns the content of `.leat` for a mount at `folder` with `files`; null: no mount has one.
  // Called at mount. Its result is destroyed before the service and `files`.
  std::function<std::vector<InspectionFile>(const std::string& folder, const FileSystem& files)>
      inspection{};
  // Opens a leat:// source; null: not supported. Without `must_answer` it does not wait for a
  // worker.
  std::function<Task<Result<SourcePtr>>(Context, StoreUrl, bool must_answer)> open_cluster{};
  Clock::duration probe_timeout = std::chrono::seconds(30);
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
  // call take_over() for all, so that each is known before requests arrive; then take_over_folder()
  // for all.
  Task<Result<>> take_over(Context context, KeptMount kept, SnapshotPtr snapshot);
  Task<Result<>> take_over_folder(std::string path);
  // Call after the last of them. Until then the predecessor's list stays unchanged, in case this
  // process dies meanwhile.
  void taken_over();
  // Changes the mount that contains the path. Returns when the kernel was notified, or after a
  // timeout as below.
  Task<Result<MountView>> change(Context context, MountChange change);
  // kBusy if it is in use, or has a mount inside. Keeps source and options.
  Task<Result<MountView>> move(Context context, MountMove move);
  Task<Result<>> unmount(Context context, std::string path, bool lazy);
  std::vector<MountView> views() const;
  // Returns the recent errors of each folder (vfs/error_memory.h), newest first.
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
  Task<> compare_held(std::string path);

  // Makes the kernels drop cached bytes of versions with corrupt bytes in the cache. Returns when
  // they were notified, or have not responded for 10 s.
  Task<> bytes_dropped(FileIdSet files);

  // Ends waits for notifications of the kernel, which continue in the background; for a daemon that
  // shuts down.
  void give_up() { stopping_.request_stop(); }

  // Closes as after the last mount, if there is none; for an unused daemon.
  void close_if_empty();
  // Rejects new mounts, unmounts all, those in use by force, and returns when they are gone.
  Task<> stop();
  // Like stop(), but the mounts stay for a successor: their doors accept no more requests. The
  // service must not be destroyed then (FuseDoor).
  Task<> hand_over();

 private:
  struct Entry {
    MountView view;
    MountRequest request;  // as it was mounted
    StoreUrl url;
    PolicySettings settings;  // present values
    FolderSettings folder;    // of the door that serves it
    // Its requests may wait longer than the kernel's default limit.
    bool waits_long = false;
    SourcePtr source;
    std::string snapshot_id;                    // of the snapshot in use; empty: none
    std::optional<KeptMounts::Door> inherited;  // from a predecessor, until the door is created
    uint64_t door_number = 0;                   // in KeptMounts; 0: not kept
    std::shared_ptr<FileSystem> file_system;    // null for a nested mount
    std::shared_ptr<FuseDoor> door;
    // Sources of removed mounts, lazily unmounted or inside this one: this door still serves files
    // opened there, until it ends.
    std::map<StoreId, SourcePtr> kept;
    bool detached = false;            // lingering since a predecessor
    bool busy = true;                 // owned by the task that set it
    bool shown = false;               // visible, whatever operation is running on it
    unsigned untold = 0;              // changes that the kernel may not know yet
    unsigned given_up = 0;            // part of `untold` that no task waits for
    std::atomic<bool> ended = false;  // the door's connection has ended

    // Its door still serves open files, or another mount, after the unmount.
    bool lingers() const { return door != nullptr && door->serving(); }
  };
  using EntryPtr = std::shared_ptr<Entry>;

  static Status ending();
  static std::string id_of(const SnapshotPtr& snapshot);
  static Result<StoreUrl> parse_source(const MountRequest& request);
  static MountView view_of(const MountRequest& request, const StoreUrl& url);
  // Adds the entry to views(), and returns its present state.
  MountView show(const EntryPtr& entry);
  static MountView as_it_is(const Entry& entry);  // the caller holds mutex_
  Result<EntryPtr> reserve(const MountRequest& request, const StoreUrl& url);
  // Does all but the mount of the folder.
  Task<Result<>> fill(Context context, EntryPtr entry, StoreUrl url, SnapshotPtr snapshot);
  static Task<Result<>> check_target(Context context, StoreUrl url, std::string path);
  // Notifies the kernel of changes in the mount at `path`. Returns false if not all could be
  // notified, because a request holds a folder or the daemon shuts down.
  Task<bool> tell_kernel(std::string path);
  // Runs notifications, or waits for them, on a blocking thread; few at once.
  Task<bool> tell(std::function<bool()> work);
  // owe() records that a successor must notify the kernel of this mount, until settle(). So changes
  // are not lost if this process ends before the notification.
  void owe(const EntryPtr& entry);
  void settle(const EntryPtr& entry);
  Task<> tell_and_settle(EntryPtr entry, std::string path);
  Task<> tell_again(Activity::Token token, EntryPtr entry);
  static Policy owner_of(const MountRequest& request);
  Task<Result<>> prepare_target(EntryPtr entry);
  Task<Result<SourcePtr>> open_store(Context context, StoreUrl url, std::string salt);
  void set_pools(const std::map<PoolId, PoolPolicy>& pools);
  static void show_settings(MountView& view, const PolicySettings& settings);
  // Returns whether any object is under the prefix.
  Task<Result<bool>> probe(Context context, SourcePtr source, StoreUrl url);
  Task<Result<>> open_door(EntryPtr entry);
  Task<Result<>> take_over_lingering(Context context, KeptMount kept);
  Task<> lose(EntryPtr entry);
  std::unique_ptr<FileSystem> make_file_system(const EntryPtr& entry, SharedRecords* records);
  Result<> inherit(const EntryPtr& entry, uint64_t number);
  Result<> keep_door(const EntryPtr& entry, const SharedRecords& records);
  // Writes the state for a successor. Call after each change of a mount.
  void remember();
  static MountRequest request_now(const Entry& entry);
  std::vector<EntryPtr> close();
  FuseDoorOptions door_options(const EntryPtr& entry);

  enum class Inside : uint8_t { kRefused, kStays };  // treatment of mounts inside
  enum class At : uint8_t { kPath, kResponsible };   // exactly there, or the nearest at or above
  // Waits for the present owner of the entry.
  Task<Result<EntryPtr>> claim(Context context, std::string path, Inside inside, At at = At::kPath);
  // Returns nothing if another task owns the entry.
  std::optional<Result<EntryPtr>> try_claim(const std::string& path, Inside inside);
  bool taking_over() const;
  std::string responsible_for(const std::string& path) const;
  Task<Result<>> change_claimed(EntryPtr entry, MountChange change);
  Task<Result<>> move_claimed(Context context, EntryPtr from, EntryPtr to);
  void keep_for_open_files(const EntryPtr& entry);
  // Removes an entry with a closed door from the table.
  Task<> leave(EntryPtr entry);
  void give_back(const EntryPtr& entry);
  EntryPtr shown_by(const EntryPtr& entry);
  void keep_source(const EntryPtr& door, const EntryPtr& entry);
  Task<Result<>> close_door(EntryPtr entry, bool lazy);
  Task<> reap(Activity::Token token, std::weak_ptr<Entry> ended);
  Task<> destroy(EntryPtr entry);
  void pass_on(const CatalogChange& change);
  std::vector<std::shared_ptr<FileSystem>> file_systems() const;

  const MountServiceOptions options_;
  Catalog& catalog_;
  Fetcher& fetcher_;
  PageStore* const store_;
  SourceTable& sources_;
  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  // A task that waits for a door's kernel occupies a blocking thread, and may depend on other
  // blocking calls.
  Semaphore telling_{4};

  std::mutex remember_mutex_;  // taken before mutex_ and that of KeptMounts
  mutable std::mutex mutex_;   // leaf
  bool closed_ = false;
  bool taking_over_;  // until taken_over()
  std::map<std::string, EntryPtr> entries_;
  std::vector<EntryPtr> handed_over_;
  std::set<EntryPtr> lingering_;  // lazily unmounted, still serve open files
};

}  // namespace leat
