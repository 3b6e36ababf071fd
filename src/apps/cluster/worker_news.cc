// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/worker_news.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/mount_entry.h"
#include "peer/mounts/mount_lookup.h"
#include "peer/peer_client.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr size_t kGoneVersionsMax = 4'096;
constexpr Clock::duration kLookTime = std::chrono::seconds(10);

// Converts a catalog's change to the invalidation for clients, if it is in a mount.
std::optional<PeerChange> name_change(const ClusterView& view, const CatalogChange& change) {
  const ClusterMount* mount = view.mount_of(change.parent);
  if (mount == nullptr) return std::nullopt;
  PeerChange told{.mount = mount->path, .key = ""};
  if (change.whole || change.listings) return told;
  const std::string below(path_below(change.parent, mount->path));
  told.key = below.empty() ? change.name : below + "/" + change.name;
  told.kind = PeerChange::Kind::kObject;
  return told;
}

}  // namespace

WorkerNews::WorkerNews(WorkerNewsParts parts, Executor& executor)
    : parts_(std::move(parts)),
      executor_(executor),
      log_({.mounts =
                [this] {
                  std::vector<std::string> paths;
                  for (const auto& [path, mount] : parts_.map.view()->mounts) paths.push_back(path);
                  return paths;
                }}),
      crier_(log_,
             {.others = [this] { return others(); },
              .tell =
                  [this](Context context, WorkerId other, PeerChanges news) {
                    return tell(parts_.peers, std::move(context), other, std::move(news));
                  }},
             executor) {}

std::vector<WorkerId> WorkerNews::others() const {
  std::vector<WorkerId> all = parts_.peers.known();
  std::erase(all, parts_.self);
  return all;
}

Task<Result<>> WorkerNews::tell(const PeerTable& peers, Context context, WorkerId other,
                                PeerChanges news) {
  const auto client = std::dynamic_pointer_cast<PeerClient>(peers.find(other));
  if (client == nullptr) co_return error(StatusCode::kUnavailable, "it cannot be reached");
  co_return co_await client->tell(std::move(context), std::move(news));
}

void WorkerNews::note(const PeerChange& change) {
  if (parts_.changed) parts_.changed(changed_path(change));
}

void WorkerNews::found(const CatalogChange& change) {
  auto told = name_change(*parts_.map.view(), change);
  if (!told) return;
  note(*told);
  crier_.cry(*std::move(told));
}

// Drop cached names, even of directories that other workers own now: this worker may own them again
// later, and must not use old names then.
void WorkerNews::heard(PeerChanges news) {
  for (const PeerChange& change : news.changes) {
    note(change);
    const std::string path = changed_directory(change);
    if (change.kind == PeerChange::Kind::kAll) {
      parts_.catalog.invalidate(path);
    } else {
      parts_.catalog.expire(path);
    }
  }
  static_cast<void>(log_.append(std::move(news.changes)));
}

bool WorkerNews::first_time(const FileId& file) {
  std::lock_guard lock(mutex_);
  if (!told_set_.insert(file).second) return false;
  told_.push_back(file);
  if (told_.size() > kGoneVersionsMax) {
    told_set_.erase(told_.front());
    told_.pop_front();
  }
  return true;
}

void WorkerNews::gone(const std::string& mount, const FileRefPtr& file) {
  if (!first_time(file->id)) return;
  if (auto token = activity_.enter()) executor_.spawn(look_again(*std::move(token), mount, file));
}

// Clients list the directory through its owner, so the owner must refresh it first.
Task<> WorkerNews::look_again(Activity::Token, std::string mount, FileRefPtr file) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  const ClusterViewPtr view = parts_.map.view();
  const auto found = view->mounts.find(mount);
  if (found == view->mounts.end()) co_return;
  const std::string key = client_key(found->second, file->key);
  Result<SourceObject> now =
      co_await parts_.files.stat(context.with_timeout(kLookTime), {.key = key});
  if (context.cancelled()) co_return;
  if (!now && now.error().code() != StatusCode::kNotFound) {
    log::info("/{} is another version now, and who holds its name does not say which: {}", key,
              now.error().to_string());
  }
  PeerChange told{.mount = mount,
                  .key = file->key.substr(found->second.prefix.size()),
                  .kind = PeerChange::Kind::kObject};
  note(told);
  crier_.cry(std::move(told));
}

Task<> WorkerNews::stop() {
  stopping_.request_stop();
  activity_.close();
  co_await activity_.wait_idle();
  co_await crier_.stop();
}

}  // namespace leat
