// SPDX-License-Identifier: Apache-2.0
// MountService: the mounts of this daemon: entries of the catalog, and the doors that show them. A
// mount inside another one's folder needs no door, since the outer door shows the namespace below
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
  FuseFeatureSet without{};  // what doors leave out though the kernel offers it
  // Refuse new mounts from the moment on that the last one goes.
  bool close_when_empty = false;
  // Of the mounts' connections; may be null, outlives the service.
  ConnectionRecord* connections = nullptr;
  // Where the mounts are kept for a successor; may be null, outlives the service.
  KeptMounts* kept = nullptr;
  // What all mounts fetch ahead; may be null, outlives the service.
  WindowBudget* windows = nullptr;
  // Called when that has happened, on any thread.
  std::function<void()> on_empty;
  // What a mount's `.leat` tells, the folder of which shows `files`; null: no mount has one. Called
  // when it is mounted; what it answers goes before the service and `files`.
  std::function<std::vector<InspectionFile>(const std::string& folder, const FileSystem& files)>
      inspection{};
  // Opens what leat:// names; null: nothing does. Without `must_answer` it waits for nobody.
  std::function<Task<Result<SourcePtr>>(Context, StoreUrl, bool must_answer)> open_cluster{};
  Clock::duration probe_timeout = std::chrono::seconds(30);
};

// What a mount is refused with once the service is closed; another daemon has to be started.
inline constexpr const char* kDaemonEnding = "the daemon is ending";

class MountService {
 public:
  // `store` may be null; all outlive the service, and stop() must have ended before it goes.
  MountService(MountServiceOptions options, Catalog& catalog, Fetcher& fetcher, PageStore* store,
               SourceTable& sources, Executor& executor);
  ~MountService();

  // `snapshot`: that its names come from; null: from the store.
  Task<Result<MountView>> mount(Context context, MountRequest request,
                                SnapshotPtr snapshot = nullptr);
  // Goes on with a mount of a predecessor, without asking its store. `snapshot` as above. First all
  // of them, so that each is known before anything is asked of one; then all of their folders.
  Task<Result<>> take_over(Context context, KeptMount kept, SnapshotPtr snapshot);
  Task<Result<>> take_over_folder(std::string path);
  // After the last of them: until then the predecessor's list stays as it is, for whoever comes if
  // this process dies meanwhile.
  void taken_over();
  // Of the mount that is responsible for the path. Returns when the kernel was told, or in vain as
  // below.
  Task<Result<MountView>> change(Context context, MountChange change);
  // kBusy where it is in use, or something is mounted inside. What it shows and how stays.
  Task<Result<MountView>> move(Context context, MountMove move);
  Task<Result<>> unmount(Context context, std::string path, bool lazy);
  std::vector<MountView> views() const;
  // What each folder remembers (vfs/error_memory.h), the newest first.
  std::vector<ErrorView> errors() const;
  // The policy of a mount has changed in the catalog; nothing where there is none.
  void refresh_view(const std::string& path);
  // The mount at `path` goes by `snapshot`, which has that name, from now on; null and "": by its
  // store. Returns when the kernel was told, or took nothing for 10 s. kNotFound where there is no
  // such mount, kBusy where it is changing all the time, and as Catalog::use_snapshot().
  Task<Result<>> use_snapshot(Context context, std::string path, std::string name,
                              SnapshotPtr snapshot);

  // Every name at and below `path` that the kernel holds and of which the catalog does not say the
  // same is looked up again. Returns when the kernel was told, or took nothing for 10 s.
  Task<> compare_held(std::string path);

  // The cache dropped bytes of these versions because they were wrong: the kernels drop what they
  // keep of them. Returns when they were told, or took nothing for 10 s.
  Task<> bytes_dropped(FileIdSet files);

  // Whoever waits until the kernel was told waits no longer, but goes on passing on what changed:
  // for a daemon that ends.
  void give_up() { stopping_.request_stop(); }

  // As when the last mount goes, if there is none: for a daemon that nobody used.
  void close_if_empty();
  // Refuses new mounts, takes all away, those in use by force, and returns when they are gone.
  Task<> stop();
  // As stop(), but the mounts stay, for a successor: their doors take no more requests. The service
  // must not be destroyed then (FuseDoor).
  Task<> hand_over();

 private:
  struct Entry {
    MountView view;
    MountRequest request;  // that it came from
    StoreUrl url;
    PolicySettings settings;  // as they are now
    FolderSettings folder;    // of the door that shows it
    // Its requests may wait for longer than the kernel lets them, unless told otherwise.
    bool waits_long = false;
    SourcePtr source;
    std::string snapshot_id;                    // of the one that it goes by; empty: none
    std::optional<KeptMounts::Door> inherited;  // from a predecessor, until the door has it
    uint64_t door_number = 0;                   // by which it is kept; 0: it is not
    std::shared_ptr<FileSystem> file_system;    // null for a nested mount
    std::shared_ptr<FuseDoor> door;
    // Of mounts that are gone, lazily or from inside this one: files opened there are still served
    // by this door, until it ends.
    std::map<StoreId, SourcePtr> kept;
    bool detached = false;            // lingers from a predecessor's time
    bool busy = true;                 // in the hands of the task that made it so
    bool shown = false;               // it is there, whatever is being done to it
    unsigned untold = 0;              // changes of which the kernel may not know yet
    unsigned given_up = 0;            // of them, those of which nobody waits to tell it
    std::atomic<bool> ended = false;  // the door's connection is gone

    // Its door serves what is open, or mounted elsewhere, though the mount goes.
    bool lingers() const { return door != nullptr && door->serving(); }
  };
  using EntryPtr = std::shared_ptr<Entry>;

  static Status ending();
  static std::string id_of(const SnapshotPtr& snapshot);
  static Result<StoreUrl> parse_source(const MountRequest& request);
  static MountView view_of(const MountRequest& request, const StoreUrl& url);
  // From now on it is one of views(); as it is now.
  MountView show(const EntryPtr& entry);
  static MountView as_it_is(const Entry& entry);  // with mutex_ held
  Result<EntryPtr> reserve(const MountRequest& request, const StoreUrl& url);
  // All but the folder.
  Task<Result<>> fill(Context context, EntryPtr entry, StoreUrl url, SnapshotPtr snapshot);
  static Task<Result<>> check_target(Context context, StoreUrl url, std::string path);
  // Of what changed in the mount at `path`. False where it could not be told of all, since a
  // request holds a folder, or since the daemon ends.
  Task<bool> tell_kernel(std::string path);
  // What tells doors, or waits until they have told, on a blocking thread: few at once.
  Task<bool> tell(std::function<bool()> work);
  // A successor has to tell the kernel of this mount, for as long as a change is not settled: when
  // it did not come to it, or when the kernel was told of what changed at `path`.
  void owe(const EntryPtr& entry);
  void settle(const EntryPtr& entry);
  Task<> tell_and_settle(EntryPtr entry, std::string path);
  Task<> tell_again(Activity::Token token, EntryPtr entry);
  static Policy owner_of(const MountRequest& request);
  Task<Result<>> prepare_target(EntryPtr entry);
  Task<Result<SourcePtr>> open_store(Context context, StoreUrl url, std::string salt);
  void set_pools(const std::map<PoolId, PoolPolicy>& pools);
  static void show_settings(MountView& view, const PolicySettings& settings);
  // Whether anything is under the prefix.
  Task<Result<bool>> probe(Context context, SourcePtr source, StoreUrl url);
  Task<Result<>> open_door(EntryPtr entry);
  Task<Result<>> take_over_lingering(Context context, KeptMount kept);
  Task<> lose(EntryPtr entry);
  std::unique_ptr<FileSystem> make_file_system(const EntryPtr& entry, SharedRecords* records);
  Result<> inherit(const EntryPtr& entry, uint64_t number);
  Result<> keep_door(const EntryPtr& entry, const SharedRecords& records);
  // What a successor would have to know is now so. After each change of a mount.
  void remember();
  static MountRequest request_now(const Entry& entry);
  std::vector<EntryPtr> close();
  FuseDoorOptions door_options(const EntryPtr& entry);

  enum class Inside : uint8_t { kRefused, kStays };  // what is mounted inside
  enum class At : uint8_t { kPath, kResponsible };   // there, or the nearest at or above it
  // Waits for whoever has it.
  Task<Result<EntryPtr>> claim(Context context, std::string path, Inside inside, At at = At::kPath);
  // Nothing where somebody has it.
  std::optional<Result<EntryPtr>> try_claim(const std::string& path, Inside inside);
  bool taking_over() const;
  std::string responsible_for(const std::string& path) const;
  Task<Result<>> change_claimed(EntryPtr entry, MountChange change);
  Task<Result<>> move_claimed(Context context, EntryPtr from, EntryPtr to);
  void keep_for_open_files(const EntryPtr& entry);
  // Takes an entry whose door was closed out of the table.
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
  // Who waits for a door's kernel takes a blocking thread, and it may wait for what needs one.
  Semaphore telling_{4};

  std::mutex remember_mutex_;  // before mutex_ and that of KeptMounts
  mutable std::mutex mutex_;   // leaf
  bool closed_ = false;
  bool taking_over_;  // until taken_over()
  std::map<std::string, EntryPtr> entries_;
  std::vector<EntryPtr> handed_over_;
  std::set<EntryPtr> lingering_;  // unmounted lazily, open files are still served
};

}  // namespace leat
