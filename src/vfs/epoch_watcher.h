// SPDX-License-Identifier: Apache-2.0
// EpochWatcher: finds trees that are read at random, as by a training epoch, and reports
// them while the reads go on. Only files that have to wait for the store count: nothing is left to
// do for a cached tree. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "prefetch/epoch_detector.h"
#include "vfs/file_system.h"
#include "vfs/node_table.h"

namespace leat {

class EpochWatcher {
 public:
  // All must outlive it.
  EpochWatcher(EpochListener& listener, Catalog& catalog,
               std::function<std::string(const Node&)> path_of,
               std::function<Clock::time_point()> now)
      : listener_(listener),
        catalog_(catalog),
        path_of_(std::move(path_of)),
        now_(std::move(now)) {}

  // A file was opened.
  void on_open(const Node& node) {
    if (any_active_.load(std::memory_order_relaxed)) report_active(node);
  }
  // A file was read for the first time since its open and had to wait for the store.
  void on_miss(const Node& node);

 private:
  static constexpr size_t kActiveMax = 4;
  // A tree that is reported.
  struct Active {
    std::string path;
    Clock::time_point next_report;
  };

  std::vector<EpochDetector::Level> levels_of(const Node& node, std::vector<std::string>& paths);
  void report_active(const Node& node);
  void report(const std::string& path);

  EpochListener& listener_;
  Catalog& catalog_;
  const std::function<std::string(const Node&)> path_of_;
  const std::function<Clock::time_point()> now_;
  std::atomic<bool> any_active_ = false;
  std::atomic<Clock::time_point> next_look_ = Clock::time_point{};
  std::mutex mutex_;  // leaf
  EpochDetector detector_;
  std::vector<Active> active_;
};

}  // namespace leat
