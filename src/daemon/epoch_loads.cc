// SPDX-License-Identifier: Apache-2.0
#include "daemon/epoch_loads.h"

#include <algorithm>

#include "model/mount_entry.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter loads_total("leat_epoch_loads_total", "Loads begun behind the readers of an epoch", "",
                    Stability::kExperimental);

constexpr int kRestEach = 10;  // times a load's duration

}  // namespace

bool EpochLoads::on_epoch(const std::string& path) {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex_);
  bool covered = false;
  for (auto& [tree, load] : loads_) {
    if (!is_at_or_below(path, tree)) continue;
    load.reported = now;
    if (load.ended == Clock::time_point::max()) return true;
    covered = true;
  }
  // A part of what did not fit does not fit either.
  if (covered) return false;
  return start_locked(path, now);
}

bool EpochLoads::start_locked(const std::string& path, Clock::time_point now) {
  auto holder = gate_.enter();
  if (!holder) return false;
  Result<JobInfo> begun = jobs_.start({.kind = JobKind::kLoad, .path = path, .background = true});
  if (!begun) {
    log::info("{} is read at random and is not loaded: {}", path, begun.error().to_string());
    return false;
  }
  log::info("{} is read at random: job {} loads what is missing and fits", path, begun->id);
  loads_total.add();
  loads_[path] = {.job = begun->id, .reported = now};
  if (!std::exchange(watching_, true)) executor_.spawn(end_abandoned(*std::move(holder)));
  return true;
}

Task<> EpochLoads::end_abandoned(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  do {
    Result<> slept = co_await sleep_for(context, options_.check_every);
    if (!slept) co_return;
  } while (check(Clock::now()));
}

bool EpochLoads::check(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  for (auto& [path, load] : loads_) {
    if (load.ended != Clock::time_point::max()) continue;
    const Result<JobInfo> info = jobs_.find(load.job);
    if (info && info->state == JobState::kRunning) {
      if (now - load.reported > options_.gone_after) {
        load.abandoned = true;
        static_cast<void>(jobs_.cancel(load.job));
      }
      continue;
    }
    load.ended = now;
    if (info) load.took = std::chrono::duration_cast<Clock::duration>(info->duration);
  }
  std::erase_if(loads_, [this, now](const auto& one) {
    const Load& load = one.second;
    if (load.ended == Clock::time_point::max()) return false;
    return load.abandoned || now - load.ended > std::max(options_.rest_min, kRestEach * load.took);
  });
  watching_ = !loads_.empty();
  return watching_;
}

Task<> EpochLoads::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
}

}  // namespace leat
