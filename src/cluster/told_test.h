// SPDX-License-Identifier: Apache-2.0
// Test double of a watch sink: records the events of a watch in order. Its sink may be called from
// any thread, and may outlive it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/registry.h"

namespace leat::testing {

class Told {
 public:
  static constexpr auto kPatience = std::chrono::seconds(20);

  RegistrySink sink() {
    return [kept = kept_](RegistryEvents events) { return take(kept, std::move(events)); };
  }
  bool wait_until_it_stands() {
    std::unique_lock lock(kept_->mutex);
    return kept_->more.wait_for(lock, kPatience, [&] { return kept_->stands; });
  }
  bool wait_for(size_t events) { return wait_until(events, kPatience); }
  bool wait_until(size_t events, Clock::duration patience) {
    std::unique_lock lock(kept_->mutex);
    return kept_->more.wait_for(lock, patience, [&] { return kept_->events.size() >= events; });
  }
  // `revision` must be one that the watch receives.
  bool wait_for_revision(RegistryRevision revision) {
    std::unique_lock lock(kept_->mutex);
    return kept_->more.wait_for(lock, kPatience, [&] { return kept_->last() >= revision; });
  }
  std::vector<RegistryEvent> events() const {
    std::lock_guard lock(kept_->mutex);
    return kept_->events;
  }
  // Returns the revision of its last event; 0 before the first.
  RegistryRevision revision() const {
    std::lock_guard lock(kept_->mutex);
    return kept_->last();
  }
  // Returns the number of events in each call of the sink.
  std::vector<size_t> batches() const {
    std::lock_guard lock(kept_->mutex);
    return kept_->batches;
  }

 private:
  struct Kept {
    RegistryRevision last() const { return events.empty() ? 0 : events.back().entry.changed; }

    std::mutex mutex;
    std::condition_variable more;
    bool stands = false;
    std::vector<RegistryEvent> events;
    std::vector<size_t> batches;
  };

  static Task<Result<>> take(std::shared_ptr<Kept> kept, RegistryEvents events) {
    std::lock_guard lock(kept->mutex);
    kept->stands = true;
    kept->more.notify_all();
    if (events.events.empty()) co_return Result<>();
    EXPECT_EQ(events.revision, events.events.back().entry.changed);
    kept->batches.push_back(events.events.size());
    std::ranges::move(events.events, std::back_inserter(kept->events));
    kept->more.notify_all();
    co_return Result<>();
  }

  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace leat::testing
