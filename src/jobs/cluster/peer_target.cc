// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/peer_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "cluster/stripes.h"
#include "peer/mounts/mount_lookup.h"

namespace leat {
namespace {

// Pause between requests to a worker that does not respond, and the number of attempts.
constexpr Clock::duration kVerifyPause = std::chrono::seconds(2);
constexpr int kVerifyFailuresMax = 5;

// The file in the form that workers use; kNotFound if its mount is gone.
struct WorkersFile {
  std::string mount;
  FileRefPtr file;
};

Result<WorkersFile> as_workers_know(const ClusterView& view, const FileRef& file) {
  const MountedKey at = find_mounted(view, file.key);
  if (at.mount == nullptr) {
    return error(StatusCode::kNotFound,
                 fmt::format("nothing is mounted at /{} of the cluster any more", file.key));
  }
  return WorkersFile{at.mount->path, std::make_shared<const FileRef>(FileRef::make(
                                         at.mount->store, at.key, file.version, file.size))};
}

}  // namespace

Task<Result<uint64_t>> PeerTarget::ask(Context context, UpkeepAction action, FileRefPtr file,
                                       ByteRange range) {
  Result<WorkersFile> known = as_workers_know(*map_.view(), *file);
  if (!known) co_return Error(known.error());
  PeerUpkeep question{.action = action, .mount = known->mount, .file = known->file, .range = range};
  PeerRouter::Ask<uint64_t> asking = [context, question](PeerPtr peer, PeerRoute route) {
    PeerUpkeep asked = question;
    asked.route = std::move(route);
    return peer->upkeep(context, std::move(asked));
  };
  const auto key = PlacementKey::stripe(known->file->store, known->file->key,
                                        stripe_at(range.offset, file->size));
  co_return co_await router_.ask<uint64_t>(context, key, fmt::format("'/{}'", file->key),
                                           std::move(asking));
}

Task<Result<uint64_t>> PeerTarget::drop(Context context, std::vector<FileRefPtr> files) {
  const ClusterViewPtr view = map_.view();
  std::vector<FileId> ids;
  for (const FileRefPtr& file : files) {
    LEAT_CO_TRY(const WorkersFile known, as_workers_know(*view, *file));
    ids.push_back(known.file->id);
  }
  uint64_t bytes = 0;
  std::vector<std::string> silent;
  for (const WorkerId& id : peers_.known()) {
    const PeerPtr peer = peers_.find(id);
    if (peer == nullptr || !peer->usable()) {
      silent.push_back(fmt::format("{} is not answering", peers_.name_of(id)));
      continue;
    }
    PeerReply<uint64_t> reply = co_await peer->drop(context, ids);
    if (reply.result) {
      bytes += *reply.result;
    } else {
      silent.push_back(fmt::format("{}: {}", peers_.name_of(id), reply.result.error().to_string()));
    }
  }
  if (silent.empty()) co_return bytes;
  co_return error(StatusCode::kUnavailable,
                  fmt::format("what these workers have stays: {}", fmt::join(silent, "; ")));
}

Task<CacheTarget::Content> PeerTarget::content(Context context, uint64_t job) {
  Content all;
  for (const WorkerId& id : peers_.known()) {
    const PeerPtr peer = peers_.find(id);
    if (peer == nullptr || !peer->usable()) continue;
    PeerReply<UpkeepVerify> reply = co_await peer->verify(context, job);
    if (!reply.result) continue;
    all.objects += reply.result->objects_total;
    all.bytes += reply.result->bytes_total;
  }
  co_return all;
}

Task<Result<>> PeerTarget::verify(Context context, uint64_t job, HostCache::StepListener listener) {
  Verified all;
  Activity activity;
  std::mutex telling;
  const HostCache::StepListener one_by_one = [&](const VerifyStep& step) {
    std::lock_guard lock(telling);
    listener(step);
  };
  for (const WorkerId& id : peers_.known()) {
    executor_.spawn(verify_one(*activity.enter(), context, id, job, &one_by_one, &all));
  }
  activity.close();
  co_await activity.wait_idle();
  LEAT_CO_CHECK_OK(context.check("a look at the caches of a cluster"));
  if (all.troubles.empty()) co_return Result<>();
  co_return error(StatusCode::kUnavailable, fmt::format("{}", fmt::join(all.troubles, "; ")));
}

Task<> PeerTarget::verify_one(Activity::Token, Context context, WorkerId worker, uint64_t job,
                              const HostCache::StepListener* listener, Verified* all) {
  UpkeepVerify before;
  int failures = 0;
  std::string trouble;
  while (!context.cancelled()) {
    const PeerPtr peer = peers_.find(worker);
    PeerReply<UpkeepVerify> reply;
    if (peer != nullptr) reply = co_await peer->verify(context, job);
    if (!reply.result) {
      trouble = reply.result.error().to_string();
      if (++failures == kVerifyFailuresMax || map_.view()->worker(worker) == nullptr) break;
      Result<> slept = co_await sleep_for(context, kVerifyPause);
      if (!slept) co_return;
      continue;
    }
    failures = 0;
    const UpkeepVerify& now = *reply.result;
    // A worker that was restarted begins its count again; those bytes are counted already.
    if (now.bytes >= before.bytes && now.objects >= before.objects) {
      (*listener)({.bytes = now.bytes - before.bytes,
                   .objects = now.objects - before.objects,
                   .corrupt_blocks =
                       now.corrupt_blocks - std::min(now.corrupt_blocks, before.corrupt_blocks)});
      before = now;
    }
    trouble = now.trouble;
    if (now.ended) break;
  }
  if (trouble.empty()) co_return;
  std::lock_guard lock(all->mutex);
  all->troubles.push_back(fmt::format("{}: {}", peers_.name_of(worker), trouble));
}

}  // namespace leat
