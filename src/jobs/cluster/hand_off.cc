// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/hand_off.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/units.h"
#include "cluster/stripes.h"
#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr uint64_t kPieceBytes = 8 * kMiB;
constexpr size_t kPageObjects = 1000;
// Few: a new owner that waits for this worker for more than a second reads the store instead
// (HandOverOptions).
constexpr unsigned kPiecesMax = 4;
constexpr unsigned kObjectsMax = 16;
constexpr unsigned kRoundsMax = 3;
// Checks all objects at the end up to this number; of more, a sample.
constexpr uint64_t kLookedAtAgain = 100'000;

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

HandOff::Run::Run(uint64_t bandwidth) : line(bandwidth), objects(kObjectsMax), pieces(kPiecesMax) {}

HandOff::RunPtr HandOff::current() const {
  std::lock_guard lock(mutex_);
  return run_;
}

std::optional<HandOffState> HandOff::state() const {
  const RunPtr run = current();
  if (run == nullptr) return std::nullopt;
  std::lock_guard lock(run->mutex);
  return run->state;
}

Task<> HandOff::begin(uint64_t bandwidth) {
  co_await call_off();
  auto token = activity_.enter();
  if (!token) co_return;
  const PageStoreStats stats = cache_.stats();
  auto next = std::make_shared<Run>(bandwidth);
  next->state.objects_total = stats.files + stats.packed_objects;
  next->state.bytes_total = stats.used_bytes;
  {
    std::lock_guard lock(mutex_);
    run_ = next;
  }
  executor_.spawn(run(*std::move(token), std::move(next)));
}

Task<> HandOff::call_off() {
  RunPtr before;
  {
    std::lock_guard lock(mutex_);
    before.swap(run_);
  }
  if (before == nullptr) co_return;
  before->stopping.request_stop();
  Result<bool> over = co_await before->over->wait(Context::background(), "the end of a drain");
  static_cast<void>(over);
}

Task<> HandOff::stop() {
  activity_.close();
  if (const RunPtr now = current()) now->stopping.request_stop();
  co_await activity_.wait_idle();
}

Task<> HandOff::run(Activity::Token, RunPtr run) {
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  Result<> gone_through;
  for (unsigned round = 1; gone_through && !context.cancelled(); ++round) {
    gone_through = co_await go_over(run, &HandOff::give);
    // Caches evict rather than reject. Also, data given while a worker did not respond lies on
    // failover workers.
    if (gone_through) gone_through = co_await go_over(run, &HandOff::look);
    if (round == kRoundsMax || !begin_again(*run)) break;
  }
  finish(*run, gone_through, context.cancelled());
  run->over->set(true);
}

// Returns whether something is missing; the next round may place it.
bool HandOff::begin_again(Run& run) {
  std::lock_guard lock(run.mutex);
  HandOffState& state = run.state;
  if (state.objects_gone == 0) return false;
  state.objects_done = state.objects_failed = state.objects_gone = 0;
  state.bytes_done = state.bytes_gone = 0;
  state.errors.clear();
  return true;
}

// Calls `each` for every object cached here, and returns when all calls have ended.
Task<Result<>> HandOff::go_over(RunPtr run, Each each) {
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  Activity activity;
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
      executor_.spawn((this->*each)(*activity.enter(), *std::move(slot), run, std::move(object)));
    }
    after = std::move(page->next);
  } while (!after.empty() && !context.cancelled());
  activity.close();
  co_await activity.wait_idle();
  co_return trouble;
}

void HandOff::finish(Run& run, const Result<>& trouble, bool stopped) {
  std::lock_guard lock(run.mutex);
  HandOffState& state = run.state;
  state.stopped = stopped;
  if (!trouble && !state.stopped) {
    ++state.objects_failed;
    state.errors.push_back(trouble.error().to_string());
  }
  if (state.objects_gone > 0) {
    state.objects_done -= std::min(state.objects_gone, state.objects_done);
    state.bytes_done -= std::min(state.bytes_gone, state.bytes_done);
    state.objects_failed += state.objects_gone;
    state.errors.push_back(
        fmt::format("the caches of the others do not hold all of it: of {} something is not there "
                    "any more, {} in all; make them larger",
                    counted(state.objects_gone, "object"), format_bytes(state.bytes_gone)));
  }
  // Objects cached or evicted meanwhile were not in the totals.
  state.objects_total = state.objects_done + state.objects_failed;
  if (!state.stopped && state.objects_failed == 0) state.bytes_total = state.bytes_done;
  state.ended = true;
  log::info("drain: {} objects, {} are with others, {} are not", state.objects_done,
            format_bytes(state.bytes_done), state.objects_failed);
}

Task<> HandOff::give(Activity::Token, Semaphore::Permit, RunPtr run, CachedObject object) {
  Result<uint64_t> given = co_await ask(run, UpkeepAction::kEnsure, object.ref);
  if (!given && run->stopping.stop_requested()) co_return;
  note(*run, object, given);
}

// Checks a sample of many objects; each stands for `share` of them.
Task<> HandOff::look(Activity::Token, Semaphore::Permit, RunPtr run, CachedObject object) {
  const uint64_t share = look_share(*run);
  if (object.ref.id.hash64() % share != 0) co_return;
  Result<uint64_t> missing = co_await ask(run, UpkeepAction::kMissing, object.ref);
  if (!missing || *missing == 0) co_return;
  std::lock_guard lock(run->mutex);
  run->state.objects_gone += share;
  run->state.bytes_gone += share * *missing;
}

uint64_t HandOff::look_share(const Run& run) {
  std::lock_guard lock(run.mutex);
  return std::max<uint64_t>(1, run.state.objects_done / kLookedAtAgain);
}

void HandOff::note(Run& run, const CachedObject& object, const Result<uint64_t>& given) {
  std::lock_guard lock(run.mutex);
  // A file that is not to be cached, or has changed, is no loss.
  const bool wanted = given || (given.error().code() != StatusCode::kUnsupported &&
                                given.error().code() != StatusCode::kChanged &&
                                given.error().code() != StatusCode::kNotFound);
  if (given || !wanted) {
    ++run.state.objects_done;
    run.state.bytes_done += object.cached_bytes;
    return;
  }
  ++run.state.objects_failed;
  if (run.state.errors.size() == HandOffState::kErrorsKept) return;
  run.state.errors.push_back(fmt::format("{}: {}", object.ref.key, given.error().to_string()));
}

// Returns the ranges of a piece that are cached here.
std::vector<ByteRange> HandOff::present(const FileRef& file, ByteRange piece) {
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
Task<Result<uint64_t>> HandOff::ask(RunPtr run, UpkeepAction action, FileRef object) {
  const ClusterViewPtr view = map_.view();
  const ClusterMount* mount = mount_with(*view, object);
  if (mount == nullptr) co_return 0;
  const Context context = Context::background().with_cancel(run->stopping.get_token());
  PeerUpkeep question{.action = action, .mount = mount->path};
  question.file = std::make_shared<const FileRef>(std::move(object));
  const FileRef& file = *question.file;
  uint64_t bytes = 0;
  for (uint64_t at = 0; at < file.size; at += kPieceBytes) {
    for (const ByteRange& part : present(file, {at, std::min(kPieceBytes, file.size - at)})) {
      question.range = part;
      Result<uint64_t> told = co_await ask_part(run, context, question);
      if (!told) co_return told;
      bytes += *told;
    }
  }
  co_return bytes;
}

Task<Result<uint64_t>> HandOff::ask_part(RunPtr run, Context context, PeerUpkeep question) {
  auto slot = co_await run->pieces.acquire(context, 1, "a drain");
  if (!slot) co_return Error(slot.error());
  if (question.action == UpkeepAction::kEnsure) {
    Result<> turn = co_await run->line.wait_for_turn(context, question.range.size);
    if (!turn) co_return Error(turn.error());
  }
  PeerRouter::Ask<uint64_t> asking = [context, question](PeerPtr peer, PeerRoute route) {
    PeerUpkeep asked = question;
    asked.route = std::move(route);
    return peer->upkeep(context, std::move(asked));
  };
  const FileRef& file = *question.file;
  const auto key =
      PlacementKey::stripe(file.store, file.key, stripe_at(question.range.offset, file.size));
  co_return co_await router_.ask<uint64_t>(context, key, fmt::format("'{}'", file.key),
                                           std::move(asking));
}

}  // namespace leat
