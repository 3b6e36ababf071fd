// SPDX-License-Identifier: Apache-2.0
// How evenly objects lie over the workers. A sample is placed; of what it shows, a part is the
// sample's own chance (counts of n draws scatter by their root), and the rest is the ring's.
// Chance shrinks with the number of objects, the ring's part does not: so that part is bounded from
// the sample, and both are put together for all objects.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "cluster/stripes.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/parts.h"
#include "scale/placed_keys.h"

namespace leat::scale {
namespace {

struct Tally {
  std::vector<double> pieces, bytes;  // by place
  double objects = 0, all_pieces = 0, all_bytes = 0, squares = 0;

  void add(size_t place, uint64_t size) {
    ++pieces[place];
    bytes[place] += double(size);
    ++all_pieces;
    all_bytes += double(size);
    squares += double(size) * double(size);
  }
  void add(const Tally& other) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] += other.pieces[i];
      bytes[i] += other.bytes[i];
    }
    objects += other.objects;
    all_pieces += other.all_pieces;
    all_bytes += other.all_bytes;
    squares += other.squares;
  }
};

Tally place(const Ring& ring, const Setting& setting) {
  const MemberIndex places(ring);
  const StoreId store = synthetic_store();
  Tally empty{std::vector<double>(places.size()), std::vector<double>(places.size())};
  auto work = [&](uint64_t first, uint64_t end, Tally& into) {
    for (uint64_t i = first; i < end; ++i) {
      const std::string key = object_key(i, setting.objects_in_directory);
      const uint64_t size = object_bytes(i);
      ++into.objects;
      for (uint64_t at = 0; at < size;) {
        const uint64_t piece = first_stripe_of({at, size - at}, size).size;
        const auto where = PlacementKey::stripe(store, key, stripe_at(at, size));
        into.add(places.of(ring.owner(where)), piece);
        at += piece;
      }
    }
  };
  Tally sum = empty;
  for (const Tally& one : on_all_cores(setting.keys, empty, work)) sum.add(one);
  return sum;
}

// What the greatest of so many normal numbers is on average.
double greatest_of(uint64_t count) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  constexpr int kRounds = 400;
  double sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    double most = -10;
    for (uint64_t i = 0; i < count; ++i) most = std::max(most, normal(random));
    sum += most;
  }
  return sum / kRounds;
}

// Loads ÷ what each should have; `shares` sum to 1.
struct Spread {
  double most = 0, least = 1e9;
  double excess = 0;  // of the ring itself, at most, as relative deviation
};

// `noise`: relative deviation that chance alone gives a worker with an average share.
Spread spread_of(const std::vector<double>& loads, const std::vector<double>& shares,
                 double noise) {
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  const double average = 1.0 / double(loads.size());
  Spread spread;
  double squares = 0;  // of deviations, in units of what chance gives
  for (size_t i = 0; i < loads.size(); ++i) {
    const double relative = loads[i] / (all * shares[i]);
    spread.most = std::max(spread.most, relative);
    spread.least = std::min(spread.least, relative);
    const double its_noise = noise * std::sqrt(average / shares[i]);
    squares += (relative - 1) * (relative - 1) / (its_noise * its_noise);
  }
  // Chi square ÷ degrees of freedom is 1 ± sqrt(2 ÷ degrees) by chance alone.
  const double degrees = double(loads.size() - 1);
  const double above = squares / degrees - 1 + 2 * std::sqrt(2 / degrees);
  spread.excess = noise * std::sqrt(std::max(0.0, above));
  print_number("deviations, 1 where chance alone makes them (chi square / degrees)",
               squares / degrees);
  return spread;
}

void print_spread(const char* what, const Setting& setting, const std::vector<double>& loads,
                  const std::vector<double>& shares, double noise, double objects_tried) {
  print_figure("of", what);
  const Spread spread = spread_of(loads, shares, noise);
  print_number("most / mean in the sample", spread.most);
  print_number("least / mean in the sample", spread.least);
  const double chance = noise * std::sqrt(objects_tried / double(setting.objects));
  const double greatest = greatest_of(setting.workers);
  print_figure("most / mean of all objects, chance alone",
               fmt::format("{:.4f}", 1 + greatest * chance));
  print_figure("most / mean of all objects, with what the sample leaves open",
               fmt::format("{:.4f}", 1 + greatest * std::hypot(chance, spread.excess)));
}

std::vector<double> shares_of(const Ring& ring) {
  std::vector<double> shares;
  double all = 0;
  for (const RingMember& member : ring.members()) all += member.weight;
  for (const RingMember& member : ring.members()) shares.push_back(member.weight / all);
  return shares;
}

void print_placed(const char* title, const Ring& ring, const Setting& setting) {
  begin_part(title);
  const Tally tally = place(ring, setting);
  print_number("objects placed", tally.objects);
  print_number("pieces of them", tally.all_pieces);
  print_bytes("mean object", tally.all_bytes / tally.objects);
  print_bytes("all objects together", tally.all_bytes / tally.objects * double(setting.objects));
  const auto shares = shares_of(ring);
  const double workers = double(setting.workers);
  print_spread("pieces", setting, tally.pieces, shares, std::sqrt(workers / tally.all_pieces),
               tally.objects);
  print_spread("bytes", setting, tally.bytes, shares,
               std::sqrt(workers * tally.squares) / tally.all_bytes, tally.objects);
}

void time_ring(const std::vector<RingRecord::Member>& members) {
  begin_part("placement: a ring");
  const uint64_t before = heap_bytes();
  const Stopwatch making;
  const Ring ring = make_ring(7, members);
  print_seconds("made from its record's members", making.cpu_seconds());
  print_bytes("heap", double(heap_bytes() - before));
  constexpr uint64_t kLookups = 100'000;
  uint64_t sum = 0;
  for (const size_t count : {1, 3, 4}) {
    const Stopwatch watch;
    for (uint64_t i = 0; i < kLookups; ++i) {
      sum += ring.candidates(any_key(i), count).front().hash64();
    }
    print_seconds(fmt::format("{} first candidates of a key", count),
                  watch.cpu_seconds() / kLookups);
  }
  if (sum == 1) fail("no candidates");
}

// How much of the disks the bound on weights leaves unused.
void print_bound(const Setting& setting) {
  begin_part("placement: the bound on weights");
  const auto capacities = mixed_capacities(setting.workers, setting.capacity_bytes);
  const auto weights = ring_weights(capacities, ring_bound(capacities, 0));
  double all = 0, usable = 0, weight_sum = 0;
  for (size_t i = 0; i < capacities.size(); ++i) {
    all += double(capacities[i]);
    usable += double(weights[i]) * double(kGiB);
    weight_sum += weights[i];
  }
  const double most = double(*std::ranges::max_element(weights));
  print_bytes("capacities together", all);
  print_bytes("of them counted", usable);
  print_number("greatest share / mean share", most * double(capacities.size()) / weight_sum);
}

}  // namespace

void run_placement(const Setting& setting) {
  const auto equal = synthetic_members(equal_capacities(setting.workers, setting.capacity_bytes));
  const auto mixed = synthetic_members(mixed_capacities(setting.workers, setting.capacity_bytes));
  time_ring(equal);
  print_placed("placement: workers that are alike", make_ring(7, equal), setting);
  print_placed("placement: workers of four sizes (shares as their weights are)",
               make_ring(7, mixed), setting);
  print_bound(setting);
}

}  // namespace leat::scale
