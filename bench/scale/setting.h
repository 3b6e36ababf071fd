// SPDX-License-Identifier: Apache-2.0
// Setting: the simulated cluster, and the size of the samples that are measured.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace leat::scale {

struct Setting {
  uint64_t workers = 1000;
  uint64_t clients = 10'000;
  uint64_t objects = 10'000'000'000;
  uint64_t objects_in_directory = 1000;
  uint64_t capacity_bytes = 4 * kTiB;   // of a worker
  double link_bytes_per_s = 25e9 / 8;   // of a worker, each way
  double link_share = 0.1;              // of it, for what is moved
  double store_latency_s = 0.1;         // of one page of a listing
  double store_requests_per_s = 5'500;  // that a store answers below one prefix
  uint64_t directories_known = 10'000;  // of one client
  uint64_t lists_in_flight = 16;        // of one worker

  // Tried.
  uint64_t keys = 10'000'000;   // placed
  uint64_t names = 10'000'000;  // kept in memory at once
  uint64_t in_snapshot = 5'000'000;
  uint64_t requests = 20'000;  // over loopback, of each kind
  uint64_t connections = 2'000;
  uint64_t repeats = 40;        // of what takes milliseconds
  std::string folder = "/tmp";  // for the snapshot
  std::string etcd{};           // program; empty: no real etcd is used
};

// Of everything a little, to see that it works.
inline Setting small_setting() {
  return {.workers = 60,
          .clients = 600,
          .objects = 600'000,
          .directories_known = 100,
          .keys = 20'000,
          .names = 4'000,
          .in_snapshot = 4'000,
          .requests = 200,
          .connections = 20,
          .repeats = 2};
}

}  // namespace leat::scale
