// SPDX-License-Identifier: Apache-2.0
// MountService: views of mounts, and changes that their stores do not have.
#include <algorithm>
#include <chrono>

#include "daemon/mounts/mount_service.h"
#include "daemon/mounts/unsent_view.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

// The client asks again after this time, and shows the progress.
constexpr Clock::duration kFlushWait = std::chrono::seconds(1);

}  // namespace

UnsentView to_view(const UnsentChanges& unsent) {
  UnsentView view{
      .changes = unsent.changes, .bytes = unsent.bytes, .local_bytes = unsent.local_bytes};
  if (unsent.oldest) {
    const std::chrono::duration<double> age = std::chrono::system_clock::now() - *unsent.oldest;
    view.oldest_seconds = std::max(0.0, age.count());
  }
  if (unsent.failure) view.error = unsent.failure->to_string();
  return view;
}

std::vector<MountView> MountService::views() const {
  std::vector<MountView> views;
  std::lock_guard lock(mutex_);
  for (const auto& [path, entry] : entries_) {
    if (entry->shown) views.push_back(current_view(*entry));
  }
  return views;
}

// Passthrough may have failed since the mount.
MountView MountService::current_view(const Entry& entry) {
  MountView view = entry.view;
  NamespaceChanges* const changes = changes_of(entry);
  if (changes != nullptr) view.unsent = to_view(changes->unsent());
  if (!entry.server) return view;
  FuseFeatures features = entry.server->features();
  view.features = {{"passthrough", features.passthrough},
                   {"io_uring", features.io_uring},
                   {"no_open", features.no_open},
                   {"readdirplus", features.readdirplus},
                   {"survives", features.survives}};
  view.passthrough_off = std::move(features.passthrough_off);
  view.passthrough_files = entry.server->stats().passthrough_files;
  return view;
}

NamespaceChanges* MountService::changes_of(const Entry& entry) {
  return entry.file_system ? entry.file_system->changes(kRootNode) : nullptr;
}

UnsentChanges MountService::unsent_of(const Entry& entry) {
  NamespaceChanges* const changes = changes_of(entry);
  return changes == nullptr ? UnsentChanges{} : changes->unsent();
}

UnsentChanges MountService::all_unsent() const {
  UnsentChanges sum;
  std::lock_guard lock(mutex_);
  for (const auto& [path, entry] : entries_) {
    const UnsentChanges unsent = unsent_of(*entry);
    sum.changes += unsent.changes;
    sum.bytes += unsent.bytes;
  }
  return sum;
}

std::vector<std::shared_ptr<FileSystem>> MountService::file_systems_at(
    const std::string& path) const {
  std::vector<std::shared_ptr<FileSystem>> found;
  std::lock_guard lock(mutex_);
  for (const auto& [at, entry] : entries_) {
    if (!entry->file_system) continue;
    if (is_at_or_below(at, path) || is_at_or_below(path, at)) found.push_back(entry->file_system);
  }
  return found;
}

Task<Result<FlushView>> MountService::flush(Context context, FlushRequest request) {
  const std::optional<Gate::Holder> holder = gate_.enter();
  if (!holder) co_return Error(ending());
  FlushView view{.done = true};
  const Context bounded = context.with_timeout(kFlushWait);
  for (const std::shared_ptr<FileSystem>& files : file_systems_at(request.path)) {
    NamespaceChanges* const changes = files->changes(kRootNode);
    if (changes == nullptr) continue;
    const Result<> flushed = co_await changes->flush(bounded, request.path);
    const bool waits = !flushed && flushed.error().code() == StatusCode::kTimedOut;
    if (!flushed && !(waits && bounded.expired())) co_return Error(flushed.error());
    view.done = view.done && flushed;
    const UnsentView unsent = to_view(changes->unsent());
    view.unsent.changes += unsent.changes;
    view.unsent.bytes += unsent.bytes;
    view.unsent.local_bytes += unsent.local_bytes;
    view.unsent.oldest_seconds = std::max(view.unsent.oldest_seconds, unsent.oldest_seconds);
    if (view.unsent.error.empty()) view.unsent.error = unsent.error;
  }
  const Result<> flushed = co_await flush_stores(bounded, request.path);
  if (!flushed && flushed.error().code() != StatusCode::kTimedOut) co_return Error(flushed.error());
  view.done = view.done && flushed;
  co_return view;
}

// A cluster may have writes that its stores do not have yet.
Task<Result<>> MountService::flush_stores(Context context, std::string path) {
  for (const MountPtr& mount : catalog_.mounts()) {
    const std::string& at = mount->entry.path;
    std::string key = mount->entry.source.prefix;
    if (is_at_or_below(path, at)) {
      key += path_below(path, at);
    } else if (!is_at_or_below(at, path)) {
      continue;
    }
    LEAT_CO_CHECK_OK(co_await mount->source->flush(context, std::move(key)));
  }
  co_return Result<>();
}

}  // namespace leat
