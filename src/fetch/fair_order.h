// SPDX-License-Identifier: Apache-2.0
// FairOrder: in which order those who wait for one thing get it. Fair queueing by virtual finish
// time (Demers, Keshav and Shenker, 1989): each flow gets an equal share by cost, so one that asks
// for little at a time passes those that ask for much, however many of these wait, and nobody waits
// for ever. Pure bookkeeping, no I/O. Not thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace leat {

class FairOrder {
 public:
  // Smaller ones come first; no two are equal.
  struct Place {
    bool yields = false;  // after all that do not
    uint64_t end = 0;     // of what it asks for, in virtual time, which is cost
    uint64_t arrived = 0;
    uint64_t start = 0;
    auto operator<=>(const Place&) const = default;
  };

  // One of `flow` waits from now on, for what costs `cost`.
  Place enter(uint64_t flow, uint64_t cost, bool yields);
  // It has got it.
  void served(const Place& place, uint64_t flow, uint64_t cost);
  // It has given up, and is not charged.
  void left(const Place& place, uint64_t flow);

 private:
  void waits_no_more(uint64_t flow);

  struct Flow {
    uint64_t end = 0;  // of its last cost, in virtual time
    uint64_t waiting = 0;
  };

  uint64_t now_ = 0;
  uint64_t arrivals_ = 0;
  size_t waiting_flows_ = 0;
  std::unordered_map<uint64_t, Flow>
      flows_;  // those that wait, and others until they do not matter
};

}  // namespace leat
