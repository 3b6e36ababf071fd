// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/cluster_job_cache.h"

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

// The file in the form that workers use; kNotFound if its mount was removed.
struct ResolvedFile {
  std::string mount;
  FileRefPtr file;
};

Result<ResolvedFile> resolve_file(const ClusterView& view, const FileRef& file) {
  const ResolvedKey at = resolve_key(view, file.key);
  if (at.mount == nullptr) {
    return error(StatusCode::kNotFound,
                 fmt::format("nothing is mounted at /{} of the cluster any more", file.key));
  }
  return ResolvedFile{at.mount->path, std::make_shared<const FileRef>(FileRef::make(
                                          at.mount->store, at.key, file.version, file.size))};
}

}  // namespace

uint64_t ClusterJobCache::capacity_bytes() const {
  uint64_t bytes = 0;
  const ClusterViewPtr view = views_.view();
  for (const auto& [id, info] : view->workers) bytes += info.capacity_bytes;
  return bytes;
}

Task<Result<uint64_t>> ClusterJobCache::request(Context context, CacheOp action, FileRefPtr file,
                                                ByteRange range) {
  Result<ResolvedFile> resolved = resolve_file(*views_.view(), *file);
  if (!resolved) co_return Error(resolved.error());
  PeerCacheOp request{
      .op = action, .mount = resolved->mount, .file = resolved->file, .range = range};
  PeerRouter::Attempt<uint64_t> send = [context, request](PeerPtr peer, PeerRoute route) {
    PeerCacheOp routed = request;
    routed.route = std::move(route);
    return peer->cache_op(context, std::move(routed));
  };
  const auto key = PlacementKey::stripe(resolved->file->store, resolved->file->key,
                                        stripe_at(range.offset, file->size));
  co_return co_await router_.request<uint64_t>(context, key, fmt::format("'/{}'", file->key),
                                               std::move(send));
}

Task<Result<uint64_t>> ClusterJobCache::drop(Context context, std::vector<FileRefPtr> files) {
  const ClusterViewPtr view = views_.view();
  std::vector<FileId> ids;
  for (const FileRefPtr& file : files) {
    LEAT_CO_TRY(const ResolvedFile resolved, resolve_file(*view, *file));
    ids.push_back(resolved.file->id);
  }
  uint64_t bytes = 0;
  std::vector<std::string> failures;
  for (const WorkerId& id : peers_.ids()) {
    const PeerPtr peer = peers_.find(id);
    if (peer == nullptr || !peer->usable()) {
      failures.push_back(fmt::format("{} does not respond", peers_.name_of(id)));
      continue;
    }
    PeerReply<uint64_t> reply = co_await peer->drop(context, ids);
    if (reply.result) {
      bytes += *reply.result;
    } else {
      failures.push_back(
          fmt::format("{}: {}", peers_.name_of(id), reply.result.error().to_string()));
    }
  }
  if (failures.empty()) co_return bytes;
  co_return error(StatusCode::kUnavailable, fmt::format("these workers keep their cached bytes: {}",
                                                        fmt::join(failures, "; ")));
}

Task<JobCache::Content> ClusterJobCache::content(Context context, uint64_t job) {
  Content all;
  for (const WorkerId& id : peers_.ids()) {
    const PeerPtr peer = peers_.find(id);
    if (peer == nullptr || !peer->usable()) continue;
    PeerReply<VerifyProgress> reply = co_await peer->verify(context, job);
    if (!reply.result) continue;
    all.objects += reply.result->objects_total;
    all.bytes += reply.result->bytes_total;
  }
  co_return all;
}

Task<Result<>> ClusterJobCache::verify(Context context, uint64_t job,
                                       HostCache::StepListener listener) {
  VerifyFailures failures;
  Gate gate;
  std::mutex notifying;
  const HostCache::StepListener one_by_one = [&](const VerifyStep& step) {
    std::lock_guard lock(notifying);
    listener(step);
  };
  for (const WorkerId& id : peers_.ids()) {
    executor_.spawn(verify_one(*gate.enter(), context, id, job, &one_by_one, &failures));
  }
  gate.close();
  co_await gate.wait_idle();
  LEAT_CO_CHECK_OK(context.check("verifying the caches of a cluster"));
  if (failures.messages.empty()) co_return Result<>();
  co_return error(StatusCode::kUnavailable, fmt::format("{}", fmt::join(failures.messages, "; ")));
}

Task<> ClusterJobCache::verify_one(Gate::Holder, Context context, WorkerId worker, uint64_t job,
                                   const HostCache::StepListener* listener, VerifyFailures* all) {
  VerifyProgress before;
  int failures = 0;
  std::string trouble;
  while (!context.cancelled()) {
    const PeerPtr peer = peers_.find(worker);
    PeerReply<VerifyProgress> reply;
    if (peer != nullptr) reply = co_await peer->verify(context, job);
    if (!reply.result) {
      trouble = reply.result.error().to_string();
      if (++failures == kVerifyFailuresMax || views_.view()->worker(worker) == nullptr) break;
      Result<> slept = co_await sleep_for(context, kVerifyPause);
      if (!slept) co_return;
      continue;
    }
    failures = 0;
    const VerifyProgress& now = *reply.result;
    // A worker that was restarted begins its count again; those bytes are counted already.
    if (now.bytes >= before.bytes && now.objects >= before.objects) {
      (*listener)({.bytes = now.bytes - before.bytes,
                   .objects = now.objects - before.objects,
                   .corrupt_blocks =
                       now.corrupt_blocks - std::min(now.corrupt_blocks, before.corrupt_blocks)});
      before = now;
    }
    trouble = now.error;
    if (now.ended) break;
  }
  if (trouble.empty()) co_return;
  std::lock_guard lock(all->mutex);
  all->messages.push_back(fmt::format("{}: {}", peers_.name_of(worker), trouble));
}

}  // namespace leat
