// SPDX-License-Identifier: Apache-2.0
// The work of a store client in the benchmarks, and its output. The same for each client, so that
// only the client differs.
//
//   CLIENT ENDPOINT BUCKET PREFIX OBJECTS OBJECT_BYTES RANGE_BYTES IN_FLIGHT READS
// Read i is range i of the objects PREFIX0, PREFIX1 … taken one after the other, again and again.
// Objects hold the little-endian 64-bit numbers object * OBJECT_BYTES + offset; ends are compared.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "own_cpu.h"

struct Plan {
  std::string endpoint, bucket, prefix;
  uint64_t objects = 0, object_bytes = 0, range_bytes = 0, in_flight = 0, reads = 0;

  Plan(int count, char** words) {
    if (count != 9) {
      std::fprintf(stderr,
                   "usage: %s ENDPOINT BUCKET PREFIX OBJECTS OBJECT_BYTES RANGE_BYTES "
                   "IN_FLIGHT READS\n",
                   words[0]);
      std::exit(2);
    }
    endpoint = words[1];
    bucket = words[2];
    prefix = words[3];
    uint64_t* const numbers[] = {&objects, &object_bytes, &range_bytes, &in_flight, &reads};
    for (int i = 0; i < 5; ++i) *numbers[i] = std::strtoull(words[4 + i], nullptr, 10);
  }

  struct Read {
    std::string key;
    uint64_t object, offset;
  };
  Read read(uint64_t index) const {
    const uint64_t ranges = object_bytes / range_bytes;
    const uint64_t object = index / ranges % objects;
    return {prefix + std::to_string(object), object, index % ranges * range_bytes};
  }
  void check(const Read& read, const char* bytes) const {
    for (uint64_t at : {uint64_t{0}, range_bytes - 8}) {
      uint64_t found = 0;
      std::memcpy(&found, bytes + at, 8);
      if (found == read.object * object_bytes + read.offset + at) continue;
      std::fprintf(stderr, "wrong bytes at %lu of %s\n", read.offset + at, read.key.c_str());
      std::exit(1);
    }
  }
};

class Watch {
 public:
  // Since the start.
  double seconds() const { return std::chrono::duration<double>(Now::now() - start_).count(); }
  // `slowest_s`: of all reads, where the client looks.
  void print(const Plan& plan, double slowest_s = 0) const {
    print(plan.reads, plan.range_bytes, slowest_s);
  }
  void print(uint64_t reads, uint64_t range_bytes, double slowest_s = 0) const {
    std::printf(
        "{\"bytes\": %lu, \"reads\": %lu, \"seconds\": %.6f, \"cpu_s\": %.6f, "
        "\"slowest_s\": %.3f}\n",
        reads * range_bytes, reads, seconds(), own_cpu_seconds() - cpu_, slowest_s);
  }

 private:
  using Now = std::chrono::steady_clock;
  const Now::time_point start_ = Now::now();
  const double cpu_ = own_cpu_seconds();
};
