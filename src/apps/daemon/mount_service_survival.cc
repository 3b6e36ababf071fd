// SPDX-License-Identifier: Apache-2.0
// Takeover of mounts: the state that is kept, and how a successor continues.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "apps/daemon/mount_service.h"
#include "doors/fuse/connection/mount_point.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// The kernel's default, which applies if `without` disables the setting.
constexpr uint64_t kKernelReadAhead = 128 * kKiB;
// The successor answers requests that take longer.
constexpr auto kHandOverPatience = std::chrono::milliseconds(500);

}  // namespace

Task<Result<>> MountService::open_door(EntryPtr entry) {
  std::shared_ptr<SharedRecords> records;
  FuseDoorOptions options = door_options(entry);
  if (entry->inherited) {
    records = entry->inherited->records;
    options.connection = ::fcntl(entry->inherited->connection.fd(), F_DUPFD_CLOEXEC, 3);
    const int failed = errno;
    entry->inherited.reset();
    if (options.connection < 0) {
      co_return error(status_from_errno(failed, "cannot take the connection over"));
    }
    options.detached = entry->detached;
  } else if (options_.kept != nullptr && options_.kept->kept()) {
    Result<std::unique_ptr<SharedRecords>> made = SharedRecords::create("leat-nodes");
    if (made) {
      records = *std::move(made);
    } else {
      log::warning("{} will not outlive this daemon: {}", entry->view.path,
                   made.error().to_string());
    }
  }
  options.records = records.get();
  std::unique_ptr<FileSystem> made = make_file_system(entry, records.get());
  // The records live as long as the last user of the file system.
  std::shared_ptr<FileSystem> file_system(made.release(),
                                          [records](FileSystem* last) { delete last; });
  {
    std::lock_guard lock(mutex_);
    entry->file_system = file_system;
  }
  auto mount_door = [this, options, file_system] {
    return FuseDoor::mount(options, *file_system, executor_);
  };
  Result<std::unique_ptr<FuseDoor>> door = co_await executor_.blocking(mount_door);
  if (!door) co_return Error(door.error());
  {
    std::lock_guard lock(mutex_);
    entry->door = std::move(*door);
  }
  if (!records || entry->door->connection() < 0 || entry->door_number != 0) co_return Result<>();
  Result<> kept = co_await executor_.blocking(
      [this, entry, records]() -> Result<> { return keep_door(entry, *records); });
  if (!kept) {
    log::warning("{} will not outlive this daemon: {}", entry->view.path, kept.error().to_string());
  }
  co_return Result<>();
}

std::unique_ptr<FileSystem> MountService::make_file_system(const EntryPtr& entry,
                                                           SharedRecords* records) {
  const std::string& folder = entry->request.path;
  const bool set = !options_.without.contains(FuseFeature::kReadAhead);
  const uint64_t read_around = set ? entry->folder.read_ahead : kKernelReadAhead;
  std::unique_ptr<FileSystem> files =
      FileSystem::create(folder, catalog_, fetcher_, store_,
                         {.records = records,
                          .windows = options_.windows,
                          .look_ahead_bytes = entry->folder.look_ahead,
                          .read_around_bytes = read_around,
                          .executor = entry->folder.next_files ? &executor_ : nullptr});
  if (!entry->request.inspection || !options_.inspection) return files;
  std::vector<InspectionFile> inspection = options_.inspection(folder, *files);
  return inspected(std::move(files), std::move(inspection));
}

Result<> MountService::keep_door(const EntryPtr& entry, const SharedRecords& records) {
  const uint64_t number = options_.kept->new_door();
  Result<> kept = options_.kept->keep(number, entry->door->connection(), records);
  if (kept) {
    entry->door_number = number;
  } else {
    options_.kept->drop(number);
  }
  return kept;
}

Task<Result<>> MountService::take_over(Context context, KeptMount kept, SnapshotPtr snapshot) {
  std::optional<Activity::Token> token = activity_.enter();
  if (!token) co_return Error(ending());
  if (kept.lingering) {
    Result<> lingers = co_await take_over_lingering(context, std::move(kept));
    co_return lingers;
  }
  kept.request.probe = false;
  Result<StoreUrl> url = parse_source(kept.request);
  if (!url) co_return Error(url.error());
  Result<EntryPtr> reserved = reserve(kept.request, *url);
  if (!reserved) co_return Error(reserved.error());
  EntryPtr entry = *reserved;
  // A new snapshot may have been built under the name.
  const bool same_snapshot = kept.snapshot_id == id_of(snapshot);
  entry->untold = kept.untold || !same_snapshot ? 1 : 0;
  Result<> filled = inherit(entry, kept.door);
  if (filled) filled = co_await fill(context, entry, *url, std::move(snapshot));
  if (!filled) co_await lose(entry);
  co_return filled;
}

Task<Result<>> MountService::take_over_folder(std::string path) {
  EntryPtr entry;
  {
    std::lock_guard lock(mutex_);
    entry = entries_.at(path);
  }
  Result<> opened;
  if (entry->view.door) {
    opened = co_await open_door(entry);
  } else if (!shown_by(entry)) {
    opened = error(StatusCode::kNotFound, "the mount that showed it is lost");
  }
  if (!opened) {
    (void)catalog_.unmount(path);
    co_await lose(entry);
    co_return opened;
  }
  show(entry);
  give_back(entry);
  co_return opened;
}

// A predecessor that does not end may hold the connection, too. Abort it, so that its programs do
// not wait.
Task<> MountService::lose(EntryPtr entry) {
  const std::string path = entry->view.path;
  {
    std::lock_guard lock(mutex_);
    entries_.erase(path);
  }
  co_await destroy(entry);
  if (entry->door_number == 0) co_return;
  co_await executor_.blocking([path] {
    force_unmount_path(path);
    return true;
  });
}

bool MountService::taking_over() const {
  std::lock_guard lock(mutex_);
  return taking_over_;
}

void MountService::taken_over() {
  std::vector<EntryPtr> untold;
  {
    std::lock_guard lock(mutex_);
    taking_over_ = false;
    for (const auto& [path, entry] : entries_) {
      if (entry->untold > 0) untold.push_back(entry);
    }
  }
  remember();
  for (const EntryPtr& entry : untold) {
    if (auto token = activity_.enter()) executor_.spawn(tell_again(std::move(*token), entry));
  }
}

// The predecessor's pending invalidations are lost, so revalidate the whole mount.
Task<> MountService::tell_again(Activity::Token, EntryPtr entry) {
  const std::string path = entry->view.path;
  co_await tell([&] {
    pass_on({.parent = path, .name = {}, .whole = true, .patient = true});
    return true;
  });
  co_await tell_and_settle(entry, path);
}

// Takes the connection of a mount with its own door. Without one the mount is recreated, unless it
// was unmounted: programs with open files there have received errors.
Result<> MountService::inherit(const EntryPtr& entry, uint64_t number) {
  if (!entry->view.door) return {};
  const std::string& path = entry->request.path;
  Result<KeptMounts::Door> door = error(StatusCode::kNotFound, "it could not outlive the daemon");
  if (number != 0) door = options_.kept->take(number);
  if (door) {
    entry->inherited = *std::move(door);
    entry->door_number = number;
    return {};
  }
  if (device_of_mount(mounts_of_this_namespace(), path).empty()) {
    return error(StatusCode::kNotFound, "it was unmounted");
  }
  log::warning("{} is mounted anew: {}", path, door.error().to_string());
  return {};
}

// Serves its open files from the store that it had.
Task<Result<>> MountService::take_over_lingering(Context context, KeptMount kept) {
  Result<StoreUrl> url = parse_source(kept.request);
  if (!url) co_return Error(url.error());
  Result<KeptMounts::Door> door = options_.kept->take(kept.door);
  if (!door) co_return Error(door.error());
  auto isolated = url->options.find("isolated");
  const bool alone = isolated != url->options.end() && isolated->second == "true";
  Result<SourcePtr> source = co_await open_store(context, *url, alone ? kept.request.path : "");
  if (!source) co_return Error(source.error());
  auto entry = std::make_shared<Entry>();
  entry->view = view_of(kept.request, *url);
  entry->request = kept.request;
  entry->url = *url;
  LEAT_CO_TRY(entry->folder, make_folder_settings(url->options));
  entry->source = *source;
  entry->inherited = *std::move(door);
  entry->door_number = kept.door;
  entry->detached = true;
  sources_.add(*source);
  entry->kept.emplace((**source).id(), *source);
  Result<> opened = co_await open_door(entry);
  if (!opened) {
    co_await destroy(entry);
    co_return opened;
  }
  {
    std::lock_guard lock(mutex_);
    entry->busy = false;
    lingering_.insert(entry);
  }
  if (auto reaping = activity_.enter()) executor_.spawn(reap(std::move(*reaping), entry));
  co_return Result<>();
}

std::string MountService::id_of(const SnapshotPtr& snapshot) {
  return snapshot ? snapshot->head().id.to_hex() : "";
}

// Returns a request that recreates the mount as it is. Policies appear only in the settings.
MountRequest MountService::request_now(const Entry& entry) {
  MountRequest request = entry.request;
  request.source = entry.url.to_string();
  request.options = entry.url.options;
  for (std::string_view option : policy_options()) request.options.erase(std::string(option));
  request.options.insert(entry.settings.mount.begin(), entry.settings.mount.end());
  request.freshness.clear();
  request.paths = entry.settings.paths;
  return request;
}

void MountService::remember() {
  if (options_.kept == nullptr || !options_.kept->kept()) return;
  std::lock_guard in_order(remember_mutex_);
  std::vector<KeptMount> mounts;
  {
    std::lock_guard lock(mutex_);
    if (closed_ || taking_over_) return;
    for (const auto& [path, entry] : entries_) {
      if (!entry->shown) continue;
      mounts.push_back({.request = request_now(*entry),
                        .door = entry->door_number,
                        .snapshot_id = entry->snapshot_id,
                        .untold = entry->untold > 0});
    }
    for (const EntryPtr& entry : lingering_) {
      if (entry->door_number == 0) continue;
      mounts.push_back(
          {.request = request_now(*entry), .door = entry->door_number, .lingering = true});
    }
  }
  options_.kept->write(mounts);
}

Task<> MountService::hand_over() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  give_up();
  activity_.close();
  co_await activity_.wait_idle();
  const Clock::time_point end = Clock::now() + kHandOverPatience;
  handed_over_ = close();
  for (const EntryPtr& entry : handed_over_) {
    // Doors without a successor end with the process, and are mounted again.
    co_await executor_.blocking([entry, end] {
      if (!entry->door) return true;
      using std::chrono::milliseconds;
      const auto left = std::chrono::floor<milliseconds>(end - Clock::now());
      entry->door->hand_over(std::max(milliseconds(0), left));
      return true;
    });
  }
}

}  // namespace leat
