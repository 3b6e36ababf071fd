// SPDX-License-Identifier: Apache-2.0
#include "vfs/epoch_watcher.h"

#include <algorithm>
#include <utility>

#include "catalog/mount_table.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

// Far less than the time after which a listener takes the readers for gone (EpochListener).
constexpr Clock::duration kReportEvery = std::chrono::seconds(1);
// While a tree is reported, opens are looked at so often.
constexpr Clock::duration kLookEvery = std::chrono::milliseconds(50);

}  // namespace

// Appends the path of each level to `paths`. Names of a directory that is being listed have no
// position yet: then there are no levels above it.
std::vector<EpochDetector::Level> EpochWatcher::levels_of(const Node& node,
                                                          std::vector<std::string>& paths) {
  std::vector<EpochDetector::Level> levels;
  std::string path = path_of_(node);
  double position = 0;  // within the name at `path`
  uint64_t files = 1;   // at and below it
  while (path != "/") {
    const std::optional<Result<CatalogEntry>> entry = catalog_.try_lookup(path);
    if (!entry || !*entry || (**entry).index == kNoIndex || !(**entry).mount) break;
    if ((**entry).mount->entry.path == path) break;  // the mount's root: what is above is another
    const std::string parent(parent_path(path));
    const ListingPtr listing = catalog_.last_list(parent);
    if (!listing || listing->size_hint() == 0) break;
    const auto names = static_cast<double>(listing->size_hint());
    position = (static_cast<double>((**entry).index) + position) / names;
    files *= listing->size_hint();
    levels.push_back({std::hash<std::string>{}(parent), position, files});
    paths.push_back(parent);
    path = parent;
  }
  return levels;
}

void EpochWatcher::on_miss(const Node& node) {
  std::vector<std::string> paths;
  const std::vector<EpochDetector::Level> levels = levels_of(node, paths);
  if (levels.empty()) return;
  const Clock::time_point now = now_();
  std::optional<size_t> detected;
  {
    std::lock_guard lock(mutex_);
    detected = detector_.observe(now, levels);
    if (detected) {
      std::erase_if(active_, [&](const Active& one) { return one.path == paths[*detected]; });
      if (active_.size() == kActiveMax) active_.erase(active_.begin());
      active_.push_back({paths[*detected], now + kReportEvery});
      any_active_ = true;
    }
  }
  if (detected) {
    report(paths[*detected]);
  } else {
    on_open(node);
  }
}

void EpochWatcher::report_active(const Node& node) {
  const Clock::time_point now = now_();
  Clock::time_point next = next_look_.load();
  if (now < next || !next_look_.compare_exchange_strong(next, now + kLookEvery)) return;
  const std::string path = path_of_(node);
  std::vector<std::string> due;
  {
    std::lock_guard lock(mutex_);
    for (Active& tree : active_) {
      if (now < tree.next_report || !is_at_or_below(path, tree.path)) continue;
      tree.next_report = now + kReportEvery;
      due.push_back(tree.path);
    }
  }
  for (const std::string& tree : due) report(tree);
}

void EpochWatcher::report(const std::string& path) {
  if (listener_.on_epoch(path)) return;
  std::lock_guard lock(mutex_);
  std::erase_if(active_, [&](const Active& one) { return one.path == path; });
  any_active_ = !active_.empty();
}

}  // namespace leat
