// SPDX-License-Identifier: Apache-2.0
// Data moved when workers join and leave. Caches are full, and each object is cached at its owner,
// so a share of the keys is that share of the cached bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "peer/sources/previous_owner_source.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/parts.h"
#include "scale/placed_keys.h"

namespace leat::scale {
namespace {

struct Moves {
  double keys = 0, moved = 0;
  std::vector<double> in, out;  // by place in the ring after, before
  std::vector<double> was_at;   // of moved: which candidate of the new ring is the previous owner
  static constexpr size_t kCandidates = 6;

  void add(const Moves& other) {
    keys += other.keys;
    moved += other.moved;
    for (size_t i = 0; i < in.size(); ++i) in[i] += other.in[i];
    for (size_t i = 0; i < out.size(); ++i) out[i] += other.out[i];
    for (size_t i = 0; i < was_at.size(); ++i) was_at[i] += other.was_at[i];
  }
};

Moves moves_between(const Ring& before, const Ring& after, uint64_t keys) {
  const MemberIndex old_places(before), new_places(after);
  const Moves empty{.in = std::vector<double>(new_places.size()),
                    .out = std::vector<double>(old_places.size()),
                    .was_at = std::vector<double>(Moves::kCandidates)};
  auto work = [&](uint64_t first, uint64_t end, Moves& into) {
    for (uint64_t i = first; i < end; ++i) {
      const PlacementKey key = any_key(i);
      const WorkerId was = before.owner(key);
      const auto now = after.candidates(key, Moves::kCandidates);
      ++into.keys;
      if (now.front() == was) continue;
      ++into.moved;
      ++into.in[new_places.of(now.front())];
      ++into.out[old_places.of(was)];
      const auto at = std::ranges::find(now, was) - now.begin();
      if (at < std::ssize(into.was_at)) ++into.was_at[static_cast<size_t>(at)];
    }
  };
  Moves sum = empty;
  for (const Moves& one : on_all_cores(keys, empty, work)) sum.add(one);
  return sum;
}

uint64_t with_any(const std::vector<double>& counts) {
  return static_cast<uint64_t>(std::ranges::count_if(counts, [](double some) { return some > 0; }));
}

// How many get and give; with few keys for each, more than are seen to.
struct Sides {
  uint64_t getting, giving;
  double cached = 0;  // bytes in all; 0: all workers are alike
};

// What moves as bytes and time, of caches that are full. What one worker gets, in bytes.
double print_moves(const Moves& moves, const Setting& setting, double least_share, Sides sides) {
  const double alike = double(setting.workers) * double(setting.capacity_bytes);
  const double cached = sides.cached > 0 ? sides.cached : alike;
  const double rate = setting.link_bytes_per_s * setting.link_share;
  const double all = moves.moved / moves.keys * cached;
  const double in = all / double(sides.getting);
  print_share("keys with another owner", moves.moved / moves.keys);
  print_number("of what has to move, that is", moves.moved / moves.keys / least_share);
  print_bytes("all that moves", all);
  print_bytes("in, at each that gets anything", in);
  print_bytes("out, at each that gives anything", all / double(sides.giving));
  print_seconds("in, at a tenth of its link", in / rate);
  print_seconds("in, at all of its link", in / setting.link_bytes_per_s);
  return in;
}

std::vector<uint64_t> with_more(std::vector<uint64_t> capacities, uint64_t count, uint64_t bytes) {
  capacities.insert(capacities.end(), count, bytes);
  return capacities;
}

// The share of the moved bytes that is read from the previous owner, and not from the store.
void print_previous_owner(double in, const Setting& setting) {
  const double window =
      std::chrono::duration<double>(PreviousOwnerOptions().transition_time).count();
  const double rate = setting.link_bytes_per_s * setting.link_share;
  print_seconds("the previous owner is used for", window);
  print_share("at a tenth of the link from it, the rest from the store",
              std::min(1.0, rate * window / in));
}

void print_join_and_leave(const Setting& setting, uint64_t keys) {
  const uint64_t bytes = setting.capacity_bytes;
  const auto equal = equal_capacities(setting.workers, bytes);
  const Ring ring = make_ring(1, synthetic_members(equal));
  const double least = 1 / double(setting.workers + 1);
  begin_part("rebalance: one worker more");
  const Ring more = make_ring(2, synthetic_members(with_more(equal, 1, bytes)));
  print_previous_owner(print_moves(moves_between(ring, more, keys), setting, least,
                                   {.getting = 1, .giving = setting.workers}),
                       setting);
  begin_part("rebalance: one worker less");
  print_moves(moves_between(more, ring, keys), setting, least,
              {.getting = setting.workers, .giving = 1});
}

// A tenth more workers, in one ring, and a ring for each.
void print_many_joins(const Setting& setting, uint64_t keys) {
  const uint64_t bytes = setting.capacity_bytes, count = setting.workers / 10;
  const auto equal = equal_capacities(setting.workers, bytes);
  auto ring_with = [&](uint64_t more) {
    return make_ring(1, synthetic_members(with_more(equal, more, bytes)));
  };
  const Ring before = ring_with(0), last_but_one = ring_with(count - 1), after = ring_with(count);
  begin_part(fmt::format("rebalance: {} workers more", count));
  const Moves moves = moves_between(before, after, keys);
  print_moves(moves, setting, double(count) / double(setting.workers + count),
              {.getting = count, .giving = setting.workers});
  for (size_t at = 1; at < 4; ++at) {
    print_share(fmt::format("of it, had by candidate {} of the new ring", at + 1),
                moves.was_at[at] / moves.moved);
  }
  boost::unordered_flat_map<WorkerId, uint64_t, IdHash> came;  // number of each that joined
  for (uint64_t i = 0; i < count; ++i) came[synthetic_worker(setting.workers + i, 0).id] = i;
  struct Found {
    double moved = 0, by_last = 0, by_first = 0;
  };
  auto work = [&](uint64_t first, uint64_t end, Found& into) {
    for (uint64_t i = first; i < end; ++i) {
      const PlacementKey key = any_key(i);
      const WorkerId had = before.owner(key);
      const auto order = after.candidates(key, Moves::kCandidates);
      if (order.front() == had) continue;
      ++into.moved;
      into.by_last += last_but_one.owner(key) == had;
      // The oldest ring that the owner of now has seen is the one before it came.
      const auto first_seen = std::ranges::find_if(order, [&](const WorkerId& id) {
        const auto other = came.find(id);
        return other == came.end() || other->second < came.at(order.front());
      });
      into.by_first += first_seen != order.end() && *first_seen == had;
    }
  };
  Found sum;
  for (const Found& one : on_all_cores(keys, Found(), work)) {
    sum.moved += one.moved;
    sum.by_last += one.by_last;
    sum.by_first += one.by_first;
  }
  print_share("where each worker comes in a ring of its own: had by the owner of the last ring",
              sum.by_last / sum.moved);
  print_share("the same, had by the owner of the oldest ring that the new owner has seen",
              sum.by_first / sum.moved);
}

// Workers that die at once: first the next candidates serve their keys, later the ring is without
// them.
void print_rack(const Setting& setting, uint64_t keys) {
  const uint64_t gone = setting.workers / 25;
  begin_part(fmt::format("rebalance: {} workers die at once", gone));
  auto members = synthetic_members(equal_capacities(setting.workers, setting.capacity_bytes));
  const Ring before = make_ring(1, members);
  std::vector<RingRecord::Member> left(members.begin() + static_cast<ptrdiff_t>(gone),
                                       members.end());
  const Ring after = make_ring(2, left);
  const Moves moves = moves_between(before, after, keys);
  print_moves(moves, setting, double(gone) / double(setting.workers),
              {.getting = left.size(), .giving = gone});
  const double cached = double(setting.workers) * double(setting.capacity_bytes);
  const double rate = setting.link_bytes_per_s * setting.link_share * double(left.size());
  print_bytes("lost with them, and read from the store again", moves.moved / moves.keys * cached);
  print_bytes("of the store at a tenth of all links", rate, "/s");
  // The workers that serve their keys until the ring changes.
  const MemberIndex alive(after);
  uint64_t others = 0, beyond = 0, tried = std::min<uint64_t>(keys, 200'000);
  for (uint64_t i = 0; i < tried; ++i) {
    const auto order = before.candidates(any_key(i), 4);
    const auto heir =
        std::ranges::find_if(order, [&](const WorkerId& id) { return alive.contains(id); });
    beyond += heir == order.end();
    others += heir != order.end() && *heir != after.owner(any_key(i));
  }
  print_number("keys that move once more when the ring is without them", double(others));
  print_number(fmt::format("keys of {} with no living worker among four candidates", tried),
               double(beyond));
}

// One worker more, by which the median becomes another size: as the leader does it, and as if the
// bound on weights followed at once.
void print_median(const Setting& setting, uint64_t keys) {
  const uint64_t bytes = setting.capacity_bytes, workers = setting.workers;
  std::vector<uint64_t> capacities(workers / 2, bytes);
  capacities.insert(capacities.end(), workers - workers / 2 - workers / 20, 2 * bytes);
  capacities.insert(capacities.end(), workers / 20, 16 * bytes);
  const uint32_t bound = ring_bound(capacities, 0);
  const auto weights = ring_weights(capacities, bound);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto more = with_more(capacities, 1, bytes);
  const Ring before = make_ring(1, synthetic_members(capacities), bound);
  const double least = double(bytes / kGiB) / all;
  for (const bool stays : {true, false}) {
    begin_part(fmt::format(
        "rebalance: one small worker more, half of the others twice as large, 5 % much larger{}",
        stays ? "" : ", if the bound followed"));
    const uint32_t next = stays ? ring_bound(more, bound) : ring_bound(more, 0);
    const Moves moves = moves_between(before, make_ring(2, synthetic_members(more), next), keys);
    print_moves(moves, setting, least,
                {with_any(moves.in), with_any(moves.out), all * double(kGiB)});
  }
}

}  // namespace

void run_rebalance(const Setting& setting) {
  const uint64_t keys = std::max<uint64_t>(setting.keys / 10, 2'000);
  begin_part("rebalance: all caches full");
  print_bytes("cached", double(setting.workers) * double(setting.capacity_bytes));
  print_number("keys tried", double(keys));
  print_join_and_leave(setting, keys);
  print_many_joins(setting, keys);
  print_rack(setting, keys);
  print_median(setting, keys);
}

}  // namespace leat::scale
