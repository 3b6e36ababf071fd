// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/drain_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/pluralize.h"
#include "base/units.h"
#include "cluster/stripes.h"
#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr uint64_t kPieceBytes = 8 * kMiB;
constexpr size_t kPageObjects = 1000;
// Few: a new owner that waits for this worker for more than a second reads the store instead
// (PreviousOwnerOptions).
constexpr unsigned kPiecesMax = 4;
constexpr unsigned kObjectsMax = 16;
constexpr unsigned kRoundsMax = 3;
// Checks all objects at the end up to this number; of more, a sample.
constexpr uint64_t kCheckedMax = 100'000;

// Returns the cluster's mount that has the file; null if there is none (any more).
const ClusterMount* mount_with(const ClusterView& view, const FileRef& file) {
  const ClusterMount* best = nullptr;
  for (const auto& [path, mount] : view.mounts) {
    const bool in_it = mount.store == file.store && file.key.starts_with(mount.prefix);
    if (in_it && (best == nullptr || mount.prefix.size() > best->prefix.size())) best = &mount;
  }
  return best;
}

}  // namespace

DrainJob::Run::Run(uint64_t bandwidth)
    : limiter(bandwidth), objects(kObjectsMax), pieces(kPiecesMax) {}

DrainJob::RunPtr DrainJob::current() const {
  std::lock_guard lock(mutex_);
  return run_;
}

std::optional<DrainProgress> DrainJob::progress() const {
  const RunPtr run = current();
  if (run == nullptr) return std::nullopt;
  std::lock_guard lock(run->mutex);
  return run->progress;
}

Task<> DrainJob::begin(uint64_t bandwidth) {
  co_await cancel();
  auto holder = gate_.enter();
  if (!holder) co_return;
  const PageStoreStats stats = cache_.stats();
  auto next = std::make_shared<Run>(bandwidth);
  next->progress.objects_total = stats.files + stats.packed_objects;
  next->progress.bytes_total = stats.used_bytes;
  {
    std::lock_guard lock(mutex_);
    run_ = next;
  }
  executor_.spawn(run(*std::move(holder), std::move(next)));
}

Task<> DrainJob::cancel() {
  RunPtr before;
  {
    std::lock_guard lock(mutex_);
    before.swap(run_);
  }
  if (before == nullptr) co_return;
  before->stopping.request_stop();
  Result<bool> ended = co_await before->ended->wait(Context::background(), "the end of a drain");
  static_cast<void>(ended);
}

Task<> DrainJob::stop() {
  gate_.close();
  if (const RunPtr now = current()) now->stopping.request_stop();
  co_await gate_.wait_idle();
}

Task<> DrainJob::run(Gate::Holder, RunPtr run) {
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  Result<> walked;
  for (unsigned round = 1; walked && !context.cancelled(); ++round) {
    walked = co_await for_each_object(run, &DrainJob::transfer);
    // Caches evict rather than reject. Also, data sent while a worker did not respond lies on
    // failover workers.
    if (walked) walked = co_await for_each_object(run, &DrainJob::check);
    if (round == kRoundsMax || !begin_round(*run)) break;
  }
  finish(*run, walked, context.cancelled());
  run->ended->set(true);
}

// Returns whether something is missing; the next round may cache it.
bool DrainJob::begin_round(Run& run) {
  std::lock_guard lock(run.mutex);
  DrainProgress& progress = run.progress;
  if (progress.objects_missing == 0) return false;
  progress.objects_done = progress.objects_failed = progress.objects_missing = 0;
  progress.bytes_done = progress.bytes_missing = 0;
  progress.errors.clear();
  return true;
}

// Calls `each` for every object cached here, and returns when all calls have ended.
Task<Result<>> DrainJob::for_each_object(RunPtr run, ObjectStep each) {
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  Gate gate;
  std::string after;
  Result<> trouble;
  do {
    Result<ObjectPage> page = co_await cache_.objects(context, after, kPageObjects);
    if (!page) {
      trouble = Error(page.error());
      break;
    }
    for (CachedObject& object : page->objects) {
      auto slot = co_await run->objects.acquire(context, 1, "a drain");
      if (!slot) break;
      executor_.spawn((this->*each)(*gate.enter(), *std::move(slot), run, std::move(object)));
    }
    after = std::move(page->next);
  } while (!after.empty() && !context.cancelled());
  gate.close();
  co_await gate.wait_idle();
  co_return trouble;
}

void DrainJob::finish(Run& run, const Result<>& trouble, bool stopped) {
  std::lock_guard lock(run.mutex);
  DrainProgress& progress = run.progress;
  progress.stopped = stopped;
  if (!trouble && !progress.stopped) {
    ++progress.objects_failed;
    progress.errors.push_back(trouble.error().to_string());
  }
  if (progress.objects_missing > 0) {
    progress.objects_done -= std::min(progress.objects_missing, progress.objects_done);
    progress.bytes_done -= std::min(progress.bytes_missing, progress.bytes_done);
    progress.objects_failed += progress.objects_missing;
    progress.errors.push_back(fmt::format(
        "the caches of the other workers do not hold all of it: {} were evicted there, "
        "in part or in whole, {} in total; make them larger",
        pluralize(progress.objects_missing, "object"), format_bytes(progress.bytes_missing)));
  }
  // Objects cached or evicted meanwhile were not in the totals.
  progress.objects_total = progress.objects_done + progress.objects_failed;
  if (!progress.stopped && progress.objects_failed == 0) progress.bytes_total = progress.bytes_done;
  progress.ended = true;
  log::info("drain: {} objects, {} are with others, {} are not", progress.objects_done,
            format_bytes(progress.bytes_done), progress.objects_failed);
}

Task<> DrainJob::transfer(Gate::Holder, Semaphore::Permit, RunPtr run, CachedObject object) {
  Result<uint64_t> moved = co_await request(run, CacheOp::kEnsure, object.ref);
  if (!moved && run->stopping.stop_requested()) co_return;
  record(*run, object, moved);
}

// Checks a sample of many objects; each stands for `share` of them.
Task<> DrainJob::check(Gate::Holder, Semaphore::Permit, RunPtr run, CachedObject object) {
  const uint64_t share = sample_share(*run);
  if (object.ref.id.hash64() % share != 0) co_return;
  Result<uint64_t> missing = co_await request(run, CacheOp::kMissing, object.ref);
  if (!missing || *missing == 0) co_return;
  std::lock_guard lock(run->mutex);
  run->progress.objects_missing += share;
  run->progress.bytes_missing += share * *missing;
}

uint64_t DrainJob::sample_share(const Run& run) {
  std::lock_guard lock(run.mutex);
  return std::max<uint64_t>(1, run.progress.objects_done / kCheckedMax);
}

void DrainJob::record(Run& run, const CachedObject& object, const Result<uint64_t>& moved) {
  std::lock_guard lock(run.mutex);
  // A file that is not to be cached, or has changed, is no loss.
  const bool wanted = moved || (moved.error().code() != StatusCode::kUnsupported &&
                                moved.error().code() != StatusCode::kVersionChanged &&
                                moved.error().code() != StatusCode::kNotFound);
  if (moved || !wanted) {
    ++run.progress.objects_done;
    run.progress.bytes_done += object.cached_bytes;
    return;
  }
  ++run.progress.objects_failed;
  if (run.progress.errors.size() == DrainProgress::kErrorsMax) return;
  run.progress.errors.push_back(fmt::format("{}: {}", object.ref.key, moved.error().to_string()));
}

// Returns the ranges of a piece that are cached here.
std::vector<ByteRange> DrainJob::cached_ranges(const FileRef& file, ByteRange piece) {
  std::vector<ByteRange> there;
  uint64_t at = piece.offset;
  for (const ByteRange& gap : cache_.missing(file, piece)) {
    if (gap.offset > at) there.push_back({at, gap.offset - at});
    at = std::max(at, gap.end());
  }
  if (at < piece.end()) there.push_back({at, piece.end() - at});
  return there;
}

// Sends `action` to the owners of the file's parts, for the ranges that are cached here. Returns
// the sum of the bytes in their replies.
Task<Result<uint64_t>> DrainJob::request(RunPtr run, CacheOp action, FileRef object) {
  const ClusterViewPtr view = views_.view();
  const ClusterMount* mount = mount_with(*view, object);
  if (mount == nullptr) co_return 0;
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  PeerCacheOp request{.op = action, .mount = mount->path};
  request.file = std::make_shared<const FileRef>(std::move(object));
  const FileRef& file = *request.file;
  uint64_t bytes = 0;
  for (uint64_t at = 0; at < file.size; at += kPieceBytes) {
    for (const ByteRange& part : cached_ranges(file, {at, std::min(kPieceBytes, file.size - at)})) {
      request.range = part;
      Result<uint64_t> bytes_of_part = co_await request_range(run, context, request);
      if (!bytes_of_part) co_return bytes_of_part;
      bytes += *bytes_of_part;
    }
  }
  co_return bytes;
}

Task<Result<uint64_t>> DrainJob::request_range(RunPtr run, Context context, PeerCacheOp request) {
  auto slot = co_await run->pieces.acquire(context, 1, "a drain");
  if (!slot) co_return Error(slot.error());
  if (request.op == CacheOp::kEnsure) {
    Result<> admitted = co_await run->limiter.acquire(context, request.range.size);
    if (!admitted) co_return Error(admitted.error());
  }
  PeerRouter::Attempt<uint64_t> send = [context, request](PeerPtr peer, PeerRoute route) {
    PeerCacheOp routed = request;
    routed.route = std::move(route);
    return peer->cache_op(context, std::move(routed));
  };
  const FileRef& file = *request.file;
  const auto key =
      PlacementKey::stripe(file.store, file.key, stripe_at(request.range.offset, file.size));
  co_return co_await router_.request<uint64_t>(context, key, fmt::format("'{}'", file.key),
                                               std::move(send));
}

}  // namespace leat
