// SPDX-License-Identifier: Apache-2.0
#include "worker/invalidation_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/mount_entry.h"
#include "peer/client/peer_client.h"
#include "peer/mounts/mount_lookup.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr size_t kGoneVersionsMax = 4'096;
constexpr Clock::duration kRefreshTimeout = std::chrono::seconds(10);

// Converts a catalog's change to the invalidation for clients, if it is in a mount.
std::optional<Invalidation> to_invalidation(const ClusterView& view, const CatalogChange& change) {
  const ClusterMount* mount = view.mount_of(change.parent);
  if (mount == nullptr) return std::nullopt;
  Invalidation invalidation{.mount = mount->path, .key = ""};
  if (change.whole || change.listings) return invalidation;
  const std::string below(path_below(change.parent, mount->path));
  invalidation.key = below.empty() ? change.name : below + "/" + change.name;
  invalidation.kind = Invalidation::Kind::kObject;
  return invalidation;
}

}  // namespace

InvalidationService::InvalidationService(InvalidationServiceDeps deps, Executor& executor)
    : deps_(std::move(deps)),
      executor_(executor),
      log_({.mounts =
                [this] {
                  std::vector<std::string> paths;
                  for (const auto& [path, mount] : deps_.views.view()->mounts)
                    paths.push_back(path);
                  return paths;
                }}),
      broadcaster_(log_,
                   {.others = [this] { return others(); },
                    .send =
                        [this](Context context, WorkerId other, Invalidations invalidations) {
                          return send(deps_.peers, std::move(context), other,
                                      std::move(invalidations));
                        }},
                   executor) {}

std::vector<WorkerId> InvalidationService::others() const {
  std::vector<WorkerId> all = deps_.peers.ids();
  std::erase(all, deps_.self);
  return all;
}

Task<Result<>> InvalidationService::send(const PeerTable& peers, Context context, WorkerId other,
                                         Invalidations invalidations) {
  const auto client = std::dynamic_pointer_cast<PeerClient>(peers.find(other));
  if (client == nullptr) co_return error(StatusCode::kUnavailable, "it cannot be reached");
  co_return co_await client->send_invalidations(std::move(context), std::move(invalidations));
}

void InvalidationService::note(const Invalidation& change) {
  if (deps_.changed) deps_.changed(invalidated_path(change));
}

void InvalidationService::on_local_change(const CatalogChange& change) {
  auto invalidation = to_invalidation(*deps_.views.view(), change);
  if (!invalidation) return;
  note(*invalidation);
  broadcaster_.publish(*std::move(invalidation));
}

// Published also where the catalog of this worker does not know the directory: other hosts may.
void InvalidationService::on_client_change(const std::string& mount, const std::string& key) {
  const ClusterViewPtr view = deps_.views.view();
  const auto found = view->mounts.find(mount);
  if (found == view->mounts.end() || !key.starts_with(found->second.prefix)) return;
  Invalidation invalidation{.mount = mount,
                            .key = key.substr(found->second.prefix.size()),
                            .kind = Invalidation::Kind::kObject};
  if (invalidation.key.ends_with('/')) {
    Invalidation below = invalidation;
    below.kind = Invalidation::Kind::kAll;  // another tree may get the name
    note(below);
    broadcaster_.publish(std::move(below));
    invalidation.key.pop_back();
  }
  note(invalidation);
  broadcaster_.publish(std::move(invalidation));
}

// Drop cached names, even of directories that other workers own now: this worker may own them again
// later, and must not use old names then.
void InvalidationService::on_remote_change(Invalidations invalidations) {
  for (const Invalidation& change : invalidations.items) {
    note(change);
    const std::string path = invalidated_directory(change);
    if (change.kind == Invalidation::Kind::kAll) {
      deps_.catalog.invalidate(path);
    } else {
      deps_.catalog.expire(path);
    }
  }
  static_cast<void>(log_.append(std::move(invalidations.items)));
}

bool InvalidationService::is_first_report(const FileId& file) {
  std::lock_guard lock(mutex_);
  if (!reported_set_.insert(file).second) return false;
  reported_.push_back(file);
  if (reported_.size() > kGoneVersionsMax) {
    reported_set_.erase(reported_.front());
    reported_.pop_front();
  }
  return true;
}

void InvalidationService::on_version_gone(const std::string& mount, const FileRefPtr& file) {
  if (!is_first_report(file->id)) return;
  if (auto holder = gate_.enter())
    executor_.spawn(refresh_at_owner(*std::move(holder), mount, file));
}

// Clients list the directory through its owner, so the owner must refresh it first.
Task<> InvalidationService::refresh_at_owner(Gate::Holder, std::string mount, FileRefPtr file) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  const ClusterViewPtr view = deps_.views.view();
  const auto found = view->mounts.find(mount);
  if (found == view->mounts.end()) co_return;
  const std::string key = client_key(found->second, file->key);
  Result<SourceObject> now =
      co_await deps_.files.stat(context.with_timeout(kRefreshTimeout), {.key = key});
  if (context.cancelled()) co_return;
  if (!now && now.error().code() != StatusCode::kNotFound) {
    log::info("/{} has another version now, and its owner did not return it: {}", key,
              now.error().to_string());
  }
  Invalidation invalidation{.mount = mount,
                            .key = file->key.substr(found->second.prefix.size()),
                            .kind = Invalidation::Kind::kObject};
  note(invalidation);
  broadcaster_.publish(std::move(invalidation));
}

Task<> InvalidationService::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
  co_await broadcaster_.stop();
}

}  // namespace leat
