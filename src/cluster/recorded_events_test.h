// SPDX-License-Identifier: Apache-2.0
// RecordedEvents: test double of a watch sink: records the events of a watch in order. Its sink may
// be called from any thread, and may outlive it.
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

class RecordedEvents {
 public:
  static constexpr auto kTimeout = std::chrono::seconds(20);

  RegistrySink sink() {
    return [state = state_](RegistryEvents events) { return take(state, std::move(events)); };
  }
  bool wait_until_started() {
    std::unique_lock lock(state_->mutex);
    return state_->more.wait_for(lock, kTimeout, [&] { return state_->started; });
  }
  bool wait_for(size_t events) { return wait_until(events, kTimeout); }
  bool wait_until(size_t events, Clock::duration timeout) {
    std::unique_lock lock(state_->mutex);
    return state_->more.wait_for(lock, timeout, [&] { return state_->events.size() >= events; });
  }
  // `revision` must be one that the watch receives.
  bool wait_for_revision(RegistryRevision revision) {
    std::unique_lock lock(state_->mutex);
    return state_->more.wait_for(lock, kTimeout, [&] { return state_->last() >= revision; });
  }
  std::vector<RegistryEvent> events() const {
    std::lock_guard lock(state_->mutex);
    return state_->events;
  }
  // Returns the revision of its last event; 0 before the first.
  RegistryRevision revision() const {
    std::lock_guard lock(state_->mutex);
    return state_->last();
  }
  // Returns the number of events in each call of the sink.
  std::vector<size_t> batches() const {
    std::lock_guard lock(state_->mutex);
    return state_->batches;
  }

 private:
  struct State {
    RegistryRevision last() const { return events.empty() ? 0 : events.back().entry.changed; }

    std::mutex mutex;
    std::condition_variable more;
    bool started = false;
    std::vector<RegistryEvent> events;
    std::vector<size_t> batches;
  };

  static Task<Result<>> take(std::shared_ptr<State> state, RegistryEvents events) {
    std::lock_guard lock(state->mutex);
    state->started = true;
    state->more.notify_all();
    if (events.events.empty()) co_return Result<>();
    EXPECT_EQ(events.revision, events.events.back().entry.changed);
    state->batches.push_back(events.events.size());
    std::ranges::move(events.events, std::back_inserter(state->events));
    state->more.notify_all();
    co_return Result<>();
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace leat::testing
