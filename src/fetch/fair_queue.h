// SPDX-License-Identifier: Apache-2.0
// FairQueue: the order in which waiters for one resource are served. Fair queueing by virtual
// finish time (Demers, Keshav and Shenker, 1989): each flow gets an equal share by cost. So a flow
// with small requests passes flows with large ones, however many of these wait, and no flow
// starves. Pure bookkeeping, no I/O. Not thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace leat {

class FairQueue {
 public:
  // The smallest position is served first; no two are equal.
  struct Position {
    bool low_priority = false;  // after all positions of normal priority
    uint64_t end = 0;           // virtual finish time, in units of cost
    uint64_t arrived = 0;
    uint64_t start = 0;
    auto operator<=>(const Position&) const = default;
  };

  // Enqueues a request of `flow` with `cost`.
  Position enqueue(uint64_t flow, uint64_t cost, bool low_priority);
  // The request was served.
  void dequeue(const Position& position, uint64_t flow, uint64_t cost);
  // The request was abandoned; it is not charged.
  void cancel(const Position& position, uint64_t flow);

 private:
  void end_wait(uint64_t flow);

  struct Flow {
    uint64_t end = 0;  // virtual finish time of its last request
    uint64_t waiting = 0;
  };

  uint64_t now_ = 0;
  uint64_t arrivals_ = 0;
  size_t waiting_flows_ = 0;
  std::unordered_map<uint64_t, Flow>
      flows_;  // waiting flows, and others until they no longer matter
};

}  // namespace leat
