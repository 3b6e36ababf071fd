// SPDX-License-Identifier: Apache-2.0
#include "scale/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"

namespace leat::scale {
namespace {

Id128 id_of(std::string_view kind, uint64_t number) {
  const std::string text = fmt::format("{} {}", kind, number);
  const std::string_view part = text;
  return Id128::digest({&part, 1});
}

struct SizeRange {
  double up_to;  // of all objects so many are in this range or one before
  double from_bytes, to_bytes;
};
constexpr double kK = 1024, kM = 1024 * kK, kG = 1024 * kM;
constexpr SizeRange kSizes[] = {{0.8, 16 * kK, 256 * kK},
                                {0.98, 256 * kK, 8 * kM},
                                {0.9995, 8 * kM, 128 * kM},
                                {1, 0.5 * kG, 8 * kG}};

}  // namespace

WorkerInfo synthetic_worker(uint64_t number, uint64_t capacity_bytes) {
  return {.id = WorkerId(id_of("worker", number)),
          .address =
              fmt::format("10.{}.{}.{}:7480", number >> 16 & 255, number >> 8 & 255, number & 255),
          .host_id = id_of("host", number).to_hex(),
          .host_name = fmt::format("trainer-{:04}.cluster.example", number),
          .capacity_bytes = capacity_bytes,
          .version = "0.1.0"};
}

std::vector<RingRecord::Member> synthetic_members(const std::vector<uint64_t>& capacities) {
  std::vector<RingRecord::Member> members;
  for (uint64_t i = 0; i < capacities.size(); ++i) {
    members.push_back({synthetic_worker(i, 0).id, capacities[i]});
  }
  std::ranges::sort(members, {}, &RingRecord::Member::worker);
  return members;
}

std::vector<uint64_t> equal_capacities(uint64_t workers, uint64_t bytes) {
  return std::vector<uint64_t>(workers, bytes);
}

std::vector<uint64_t> mixed_capacities(uint64_t workers, uint64_t bytes) {
  std::vector<uint64_t> capacities;
  for (uint64_t i = 0; i < workers; ++i) {
    const uint64_t place = i * 37 % 100;
    capacities.push_back(place < 60   ? bytes
                         : place < 85 ? bytes * 2
                         : place < 95 ? bytes / 2
                                      : bytes * 8);
  }
  return capacities;
}

RegistryView synthetic_entries(const std::vector<uint64_t>& capacities) {
  RegistryView view{.entries = {}, .revision = 1'000'000};
  auto add = [&](std::string key, std::string value) {
    view.entries.push_back({.key = std::move(key), .value = std::move(value), .changed = 999'000});
  };
  for (uint64_t i = 0; i < capacities.size(); ++i) {
    const WorkerInfo worker = synthetic_worker(i, capacities[i]);
    add(worker_key(worker.id), encode_worker(worker));
  }
  RingRecord ring{.members = synthetic_members(capacities)};
  ring.previous = ring.members;
  ring.previous.pop_back();
  ring.previous_epoch = 998'000;
  add(std::string(kRingKey), encode_ring(ring));
  for (const char* path : {"/train", "/validation", "/checkpoints"}) {
    add(mount_key(path), encode_mount({.path = path,
                                       .source = fmt::format("s3://bucket{}", path),
                                       .options = {{"region", "eu-central-1"}},
                                       .store = synthetic_store(),
                                       .prefix = fmt::format("{}/", path + 1)}));
  }
  add(std::string(kLeaderKey), synthetic_worker(0, 0).id.to_hex());
  std::ranges::sort(view.entries, {}, &RegistryEntry::key);
  return view;
}

uint64_t object_bytes(uint64_t number) {
  constexpr double kWhole = 18446744073709551616.0;  // 2^64
  const double which = double(hash_mix(number * 2 + 1)) / kWhole;
  const double where = double(hash_mix(~number)) / kWhole;
  for (const SizeRange& range : kSizes) {
    if (which >= range.up_to) continue;
    return static_cast<uint64_t>(range.from_bytes *
                                 std::pow(range.to_bytes / range.from_bytes, where));
  }
  return 0;
}

StoreId synthetic_store() {
  return make_store_id("s3", "https://s3.eu-central-1.amazonaws.com", "", "bucket");
}

std::string object_key(uint64_t number, uint64_t in_directory) {
  return fmt::format("train/part-{:07}/sample-{:010}.jpg", number / in_directory, number);
}

}  // namespace leat::scale
