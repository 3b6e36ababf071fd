// SPDX-License-Identifier: Apache-2.0
// TopSample: activity of a daemon between two samples, as `leat top` shows it. Plain data and pure
// functions; top_feed.h fetches the samples.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/admin/codec.h"
#include "frontends/admin/trace_view.h"

namespace leat {

// The state at one moment.
struct TopSnapshot {
  std::chrono::steady_clock::time_point at{};
  WallTime time{};
  DaemonStatus status{};
  std::vector<JobView> jobs{};
  std::vector<SlowView> slow{};  // newest first
};

struct TopSample {
  struct Origin {
    std::string origin{};  // "memory", "cache", "source", "local_disk"
    double bytes_per_second = 0;
  };
  struct Operation {
    std::string operation{};  // "read", "list", "stat", "write", "remove"
    double requests_per_second = 0;
  };
  struct Store {
    std::string store{}, store_id{};  // "s3://bucket"; store_id distinguishes equal names
    double requests_per_second = 0;   // each attempt counts
    double bytes_per_second = 0;
    std::optional<double> mean_seconds{};  // empty: no request ended
  };
  struct Mount {
    std::string path{}, source{};  // the source is empty if it is no longer mounted
    double bytes_per_second = 0;
    double reads_per_second = 0;
    double errors_per_second = 0;
    std::optional<double> mean_seconds{};  // of reads that did not return inline
    uint64_t passthrough_files = 0;        // open now; their reads are in no number
  };

  WallTime time{};     // of the second sample
  double seconds = 0;  // between the samples
  std::string version{};
  int pid = 0;
  uint64_t restarts = 0;
  double uptime_seconds = 0;

  double bytes_per_second = 0;         // from the daemon to programs, all origins
  double loaded_bytes_per_second = 0;  // from stores, for readers, prefetch and jobs
  std::vector<Origin> origins{};
  std::optional<double> hit_share{};  // share of cached bytes; empty: nothing was read
  double requests_per_second = 0;
  std::vector<Operation> operations{};
  double retries_per_second = 0, throttled_per_second = 0, failed_per_second = 0;
  std::vector<Store> stores{};  // sorted by name
  std::vector<Mount> mounts{};  // largest readers first

  uint64_t rss_bytes = 0, memory_bytes = 0, memory_bytes_max = 0;
  uint64_t cache_used_bytes = 0, cache_capacity_bytes = 0;
  uint64_t reads_waiting = 0, requests_in_flight = 0;
  uint64_t streams = 0, window_bytes = 0;
  uint64_t passthrough_opens = 0;  // since the daemon started
  double passthrough_opens_per_second = 0;
  uint64_t passthrough_files = 0;  // open now
  std::vector<JobView> jobs{};     // running ones
  std::vector<SlowView> slow{};

  // Returns whether programs have files in passthrough. No kernel interface counts those bytes, so
  // a rate of 0 does not mean that nothing is read.
  bool kernel_reads() const { return passthrough_files > 0 || passthrough_opens_per_second > 0; }
};

// Returns nothing if the samples come from two daemons, or from the same moment.
std::optional<TopSample> sample_between(const TopSnapshot& before, const TopSnapshot& after);

Json to_json(const TopSample& sample);

}  // namespace leat
