// SPDX-License-Identifier: Apache-2.0
// Takeover of mounts: the state that is saved, and how a successor continues.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/hash.h"
#include "base/units.h"
#include "daemon/mounts/mount_service.h"
#include "daemon/mounts/mount_settings.h"
#include "frontends/fuse/connection/mount_point.h"
#include "telemetry/log.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

// The kernel's default, which applies if kReadAhead is a disabled feature.
constexpr uint64_t kKernelReadAhead = 128 * kKiB;
// The successor replies to requests that take longer.
constexpr auto kTakeoverDrainTimeout = std::chrono::milliseconds(500);

}  // namespace

Task<Result<>> MountService::start_server(EntryPtr entry) {
  std::shared_ptr<MemfdRecordTable> records;
  FuseServerOptions options = server_options(entry);
  if (entry->inherited) {
    records = entry->inherited->records;
    options.connection = ::fcntl(entry->inherited->connection.fd(), F_DUPFD_CLOEXEC, 3);
    const int failed = errno;
    entry->inherited.reset();
    if (options.connection < 0) {
      co_return error(status_from_errno(failed, "cannot duplicate the connection"));
    }
    options.detached = entry->detached;
  } else if (options_.takeover_state != nullptr && options_.takeover_state->enabled() &&
             !entry->options.writable) {
    Result<std::unique_ptr<MemfdRecordTable>> made = MemfdRecordTable::create("leat-nodes");
    if (made) {
      records = *std::move(made);
    } else {
      log::warning("{} cannot be taken over by the next daemon: {}", entry->view.path,
                   made.error().to_string());
    }
  }
  options.records = records.get();
  auto make = [&] { return make_file_system(entry, records.get()); };
  LEAT_CO_TRY(std::unique_ptr<FileSystem> made, co_await executor_.blocking(make));
  // The records live as long as the last user of the file system.
  std::shared_ptr<FileSystem> file_system(made.release(),
                                          [records](FileSystem* last) { delete last; });
  {
    std::lock_guard lock(mutex_);
    entry->file_system = file_system;
  }
  auto mount_server = [this, options, file_system] {
    return options_.mount_fuse(options, *file_system, executor_);
  };
  Result<std::unique_ptr<FuseServer>> server = co_await executor_.blocking(mount_server);
  if (!server) co_return Error(server.error());
  {
    std::lock_guard lock(mutex_);
    entry->server = std::move(*server);
  }
  if (!records || entry->server->connection() < 0 || entry->connection_number != 0)
    co_return Result<>();
  Result<> stored = co_await executor_.blocking(
      [this, entry, records]() -> Result<> { return save_connection(entry, *records); });
  if (!stored) {
    log::warning("{} cannot be taken over by the next daemon: {}", entry->view.path,
                 stored.error().to_string());
  }
  co_return Result<>();
}

Result<std::unique_ptr<FileSystem>> MountService::make_file_system(const EntryPtr& entry,
                                                                   MemfdRecordTable* records) {
  const std::string& folder = entry->request.path;
  const bool set = !options_.disabled_features.contains(FuseFeature::kReadAhead);
  const uint64_t read_around = set ? entry->options.kernel_readahead : kKernelReadAhead;
  std::unique_ptr<FileSystem> files = FileSystem::create(
      folder, catalog_, fetcher_, store_,
      {.records = records,
       .windows = options_.windows,
       .prefetch_window_bytes = entry->options.prefetch_window,
       .fault_around_bytes = read_around,
       .executor = entry->options.prefetch_next_files ? &executor_ : nullptr,
       .epochs = entry->options.load == MountLoad::kAuto ? options_.epochs : nullptr});
  if (entry->options.writable) {
    WritingOptions writing{.staging_directory = options_.staging_directory,
                           .journal_directory = journal_directory(folder),
                           .owner = entry->url.to_string()};
    writing.uploads.bytes_max = options_.staging_bytes_max;
    writing.direct_writes = StagedFile::has_exact_times(options_.staging_directory);
    auto writable = std::make_unique<WritableFileSystem>(std::move(files), folder, catalog_, store_,
                                                         executor_, std::move(writing));
    LEAT_CHECK_OK(writable->restore());
    files = std::move(writable);
  }
  if (!entry->request.inspection || !options_.inspection) return files;
  std::vector<VirtualFile> inspection = options_.inspection(folder, *files);
  return with_inspection(std::move(files), std::move(inspection));
}

std::string MountService::journal_directory(const std::string& folder) const {
  const std::string name = folder.substr(folder.rfind('/') + 1);
  return fmt::format("{}/writes/{}-{:016x}", options_.staging_directory, name, hash_bytes(folder));
}

// Files that could not be saved when they were closed get one more attempt.
void MountService::save_all(const Entry& entry) {
  NamespaceChanges* const changes = changes_of(entry);
  if (changes == nullptr) return;
  const Result<> saved = executor_.block_on(changes->save_all(Context::background()));
  if (!saved) {
    log::error("{} ended with files that were not saved, and they are lost: {}", entry.view.path,
               saved.error().to_string());
  }
}

void MountService::save_written(const Entry& entry) {
  NamespaceChanges* const changes = changes_of(entry);
  if (changes == nullptr) return;
  save_all(entry);
  executor_.block_on(changes->stop());
  const UnsentChanges unsent = changes->unsent();
  if (unsent.changes == 0) return;
  log::warning(
      "{} ended with {} changes ({}) that its store does not have; they are in {}, and are "
      "sent when {} is mounted there again",
      entry.view.path, unsent.changes, format_bytes(unsent.bytes),
      journal_directory(entry.request.path), entry.view.source);
}

Result<> MountService::save_connection(const EntryPtr& entry, const MemfdRecordTable& records) {
  const uint64_t number = options_.takeover_state->new_number();
  Result<> stored = options_.takeover_state->store(number, entry->server->connection(), records);
  if (stored) {
    entry->connection_number = number;
  } else {
    options_.takeover_state->remove(number);
  }
  return stored;
}

Task<Result<>> MountService::restore(Context context, SavedMount saved, SnapshotPtr snapshot) {
  std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  if (saved.lingering) {
    Result<> lingers = co_await restore_lingering(context, std::move(saved));
    co_return lingers;
  }
  saved.request.probe = false;
  Result<StoreUrl> url = parse_source(saved.request);
  if (!url) co_return Error(url.error());
  Result<EntryPtr> reserved = reserve(saved.request, *url);
  if (!reserved) co_return Error(reserved.error());
  EntryPtr entry = *reserved;
  // A new snapshot may have been built under the name.
  const bool same_snapshot = saved.snapshot_id == id_of(snapshot);
  entry->pending_invalidations = saved.invalidation_pending || !same_snapshot ? 1 : 0;
  Result<> filled = inherit(entry, saved.connection_number);
  if (filled) filled = co_await fill(context, entry, *url, std::move(snapshot));
  if (!filled) co_await drop(entry);
  co_return filled;
}

Task<Result<>> MountService::restore_frontend(std::string path) {
  EntryPtr entry;
  {
    std::lock_guard lock(mutex_);
    entry = entries_.at(path);
  }
  Result<> opened;
  if (entry->view.own_fuse_mount) {
    opened = co_await start_server(entry);
  } else if (!outer_mount(entry)) {
    opened = error(StatusCode::kNotFound, "the mount around it is lost");
  }
  if (!opened) {
    (void)catalog_.unmount(path);
    co_await drop(entry);
    co_return opened;
  }
  show(entry);
  unclaim(entry);
  co_return opened;
}

// A predecessor that does not end may hold the connection, too. Abort it, so that its programs do
// not wait.
Task<> MountService::drop(EntryPtr entry) {
  const std::string path = entry->view.path;
  {
    std::lock_guard lock(mutex_);
    entries_.erase(path);
  }
  co_await destroy(entry);
  if (entry->connection_number == 0) co_return;
  co_await executor_.blocking([path] {
    force_unmount_path(path);
    return true;
  });
}

bool MountService::restoring() const {
  std::lock_guard lock(mutex_);
  return restoring_;
}

void MountService::finish_restore() {
  std::vector<EntryPtr> pending;
  {
    std::lock_guard lock(mutex_);
    restoring_ = false;
    for (const auto& [path, entry] : entries_) {
      if (entry->pending_invalidations > 0) pending.push_back(entry);
    }
  }
  save_state();
  for (const EntryPtr& entry : pending) {
    if (auto holder = gate_.enter())
      executor_.spawn(invalidate_whole_mount(std::move(*holder), entry));
  }
}

// The predecessor's pending invalidations are lost, so revalidate the whole mount.
Task<> MountService::invalidate_whole_mount(Gate::Holder, EntryPtr entry) {
  const std::string path = entry->view.path;
  co_await run_notification([&] {
    on_catalog_change({.parent = path, .name = {}, .whole = true, .may_block = true});
    return true;
  });
  co_await invalidate_and_clear(entry, path);
}

// Takes the connection of a mount with its own FUSE server. Without one the mount is recreated,
// unless it was unmounted: programs with open files there have received errors.
Result<> MountService::inherit(const EntryPtr& entry, uint64_t number) {
  if (!entry->view.own_fuse_mount) return {};
  const std::string& path = entry->request.path;
  Result<TakeoverState::SavedConnection> connection =
      error(StatusCode::kNotFound, "its connection was not saved");
  if (number != 0) connection = options_.takeover_state->take(number);
  if (connection) {
    entry->inherited = *std::move(connection);
    entry->connection_number = number;
    return {};
  }
  if (device_of_mount(mounts_of_this_namespace(), path).empty()) {
    return error(StatusCode::kNotFound, "it was unmounted");
  }
  log::warning("remounting {}: {}", path, connection.error().to_string());
  return {};
}

// Serves its open files from the store that it had.
Task<Result<>> MountService::restore_lingering(Context context, SavedMount saved) {
  Result<StoreUrl> url = parse_source(saved.request);
  if (!url) co_return Error(url.error());
  Result<TakeoverState::SavedConnection> connection =
      options_.takeover_state->take(saved.connection_number);
  if (!connection) co_return Error(connection.error());
  auto entry = std::make_shared<Entry>();
  entry->inherited = *std::move(connection);
  entry->connection_number = saved.connection_number;
  auto isolated = url->options.find("isolated");
  const bool alone = isolated != url->options.end() && isolated->second == "true";
  Result<SourcePtr> source = co_await open_store(context, *url, alone ? saved.request.path : "");
  Result<MountOptions> options = parse_mount_options(url->options);
  if (!source || !options) {
    co_await destroy(entry);  // otherwise the programs with open files wait for ever
    co_return Error(source ? options.error() : source.error());
  }
  entry->view = view_of(saved.request, *url);
  entry->request = saved.request;
  entry->url = *url;
  entry->settings = policy_settings_of(saved.request, *url);  // for the next takeover
  entry->options = *options;
  entry->source = *source;
  entry->detached = true;
  sources_.add(*source);
  entry->lingering_sources.emplace((**source).id(), *source);
  Result<> opened = co_await start_server(entry);
  if (!opened) {
    co_await destroy(entry);
    co_return opened;
  }
  {
    std::lock_guard lock(mutex_);
    entry->busy = false;
    lingering_.insert(entry);
  }
  if (auto reaping = gate_.enter()) executor_.spawn(reap(std::move(*reaping), entry));
  co_return Result<>();
}

std::string MountService::id_of(const SnapshotPtr& snapshot) {
  return snapshot ? snapshot->head().id.to_hex() : "";
}

// Returns a request that recreates the mount as it is. Policies appear only in the settings.
MountRequest MountService::current_request(const Entry& entry) {
  MountRequest request = entry.request;
  request.source = entry.url.to_string();
  request.options = entry.url.options;
  for (std::string_view option : policy_options()) request.options.erase(std::string(option));
  request.options.insert(entry.settings.mount.begin(), entry.settings.mount.end());
  request.freshness.clear();
  request.paths = entry.settings.paths;
  return request;
}

void MountService::save_state() {
  if (options_.takeover_state == nullptr || !options_.takeover_state->enabled()) return;
  std::lock_guard in_order(save_mutex_);
  std::vector<SavedMount> mounts;
  {
    std::lock_guard lock(mutex_);
    if (closed_ || restoring_) return;
    for (const auto& [path, entry] : entries_) {
      if (!entry->shown) continue;
      mounts.push_back({.request = current_request(*entry),
                        .connection_number = entry->connection_number,
                        .snapshot_id = entry->snapshot_id,
                        .invalidation_pending = entry->pending_invalidations > 0});
    }
    for (const EntryPtr& entry : lingering_) {
      if (entry->connection_number == 0) continue;
      mounts.push_back({.request = current_request(*entry),
                        .connection_number = entry->connection_number,
                        .lingering = true});
    }
  }
  options_.takeover_state->write(mounts);
}

// Operations in flight end first, and are saved for the successor.
Task<> MountService::prepare_takeover() {
  cancel_waits();
  gate_.close();
  co_await gate_.wait_idle();
  const Clock::time_point end = Clock::now() + kTakeoverDrainTimeout;
  stopped_for_takeover_ = close();
  for (const EntryPtr& entry : stopped_for_takeover_) {
    // Servers without a successor end with the process, and are mounted again.
    co_await executor_.blocking([this, entry, end] {
      if (!entry->server) return true;
      using std::chrono::milliseconds;
      const auto left = std::chrono::floor<milliseconds>(end - Clock::now());
      entry->server->prepare_takeover(std::max(milliseconds(0), left));
      save_written(*entry);
      return true;
    });
  }
}

}  // namespace leat
