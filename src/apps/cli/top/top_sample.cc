// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/top/top_sample.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "apps/cli/top/counter_rates.h"

namespace leat {
namespace {

constexpr std::array kOrigins = {"memory", "cache", "source", "local_disk"};
constexpr std::array kOperations = {"read", "list", "stat", "write", "remove"};

uint64_t whole(double value) {
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

std::optional<double> mean(double sum, double count) {
  if (count <= 0) return std::nullopt;
  return sum / count;
}

// The console uses the same definition: files on local disks are read directly and count in neither
// part.
std::optional<double> hit_share(const CounterRates& rates) {
  auto part = [&](const char* origin) {
    return rates.growth("leat_fetch_bytes_total", {{"origin", origin}});
  };
  const double hits = part("memory") + part("cache");
  const double all = hits + part("source");
  if (all <= 0) return std::nullopt;
  return hits / all;
}

void add_throughput(const CounterRates& rates, TopSample& sample) {
  for (const char* origin : kOrigins) {
    const double rate = rates.rate("leat_fetch_bytes_total", {{"origin", origin}});
    sample.origins.push_back({.origin = origin, .bytes_per_second = rate});
    sample.bytes_per_second += rate;
  }
  sample.loaded_bytes_per_second = rates.rate("leat_fetch_source_bytes_total");
  sample.hit_share = hit_share(rates);
  sample.passthrough_opens = whole(rates.value("leat_fuse_opens_total", {{"mode", "passthrough"}}));
  sample.passthrough_opens_per_second =
      rates.rate("leat_fuse_opens_total", {{"mode", "passthrough"}});
}

void add_requests(const CounterRates& rates, TopSample& sample) {
  for (const char* operation : kOperations) {
    const double rate = rates.rate("leat_source_requests_total", {{"store_op", operation}});
    sample.operations.push_back({.operation = operation, .requests_per_second = rate});
    sample.requests_per_second += rate;
  }
  sample.retries_per_second = rates.rate("leat_source_retries_total");
  sample.throttled_per_second = rates.rate("leat_source_throttled_total");
  sample.failed_per_second = rates.rate("leat_source_errors_total");
}

void add_stores(const CounterRates& rates, TopSample& sample) {
  struct Sums {
    double count = 0, seconds = 0, bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sums> stores;
  auto add = [&](const char* name, double Sums::* sum) {
    for (CounterRates::Series& one : rates.series(name)) {
      stores[{one.labels["store"], one.labels["store_id"]}].*sum += one.growth;
    }
  };
  add("leat_source_request_seconds_count", &Sums::count);
  add("leat_source_request_seconds_sum", &Sums::seconds);
  add("leat_source_bytes_total", &Sums::bytes);
  for (const auto& [store, sums] : stores) {
    sample.stores.push_back({.store = store.first,
                             .store_id = store.second,
                             .requests_per_second = sums.count / rates.seconds(),
                             .bytes_per_second = sums.bytes / rates.seconds(),
                             .mean_seconds = mean(sums.seconds, sums.count)});
  }
}

void add_mounts(const CounterRates& rates, const DaemonStatus& status, TopSample& sample) {
  auto bytes = rates.growth_by("leat_vfs_read_bytes_total", "folder");
  auto reads = rates.growth_by("leat_vfs_reads_total", "folder");
  auto errors = rates.growth_by("leat_vfs_read_errors_total", "folder");
  auto waits = rates.growth_by("leat_vfs_read_seconds_count", "folder");
  auto seconds = rates.growth_by("leat_vfs_read_seconds_sum", "folder");
  std::map<std::string, std::string> sources;
  std::map<std::string, uint64_t> passed_through;
  for (const auto& [path, grown] : bytes) sources[path];
  for (const MountView& mount : status.mounts) {
    sources[mount.path] = mount.source;
    passed_through[mount.path] = mount.passthrough_files;
    sample.passthrough_files += mount.passthrough_files;
  }
  for (const auto& [path, source] : sources) {
    sample.mounts.push_back({.path = path,
                             .source = source,
                             .bytes_per_second = bytes[path] / rates.seconds(),
                             .reads_per_second = reads[path] / rates.seconds(),
                             .errors_per_second = errors[path] / rates.seconds(),
                             .mean_seconds = mean(seconds[path], waits[path]),
                             .passthrough_files = passed_through[path]});
  }
  std::ranges::sort(sample.mounts, [](const TopSample::Mount& a, const TopSample::Mount& b) {
    return std::tie(b.bytes_per_second, a.path) < std::tie(a.bytes_per_second, b.path);
  });
}

void add_state(const CounterRates& rates, const DaemonStatus& status, TopSample& sample) {
  sample.version = status.version;
  sample.pid = status.pid;
  sample.restarts = status.restarts;
  sample.uptime_seconds = status.uptime_seconds;
  sample.rss_bytes = status.rss_bytes;
  sample.memory_bytes = status.memory_bytes;
  sample.memory_bytes_max = status.memory_bytes_max;
  sample.cache_used_bytes = status.cache.stats.used_bytes;
  sample.cache_capacity_bytes = status.cache.stats.capacity_bytes;
  sample.requests_in_flight = status.requests_in_flight;
  sample.reads_waiting = whole(rates.value("leat_fetch_reads_waiting"));
  sample.streams = whole(rates.value("leat_prefetch_streams"));
  sample.window_bytes = whole(rates.value("leat_prefetch_window_bytes"));
}

}  // namespace

std::optional<TopSample> sample_between(const TopSnapshot& before, const TopSnapshot& after) {
  const double seconds = std::chrono::duration<double>(after.at - before.at).count();
  // A pid may be reused, but the uptime of a daemon never decreases.
  if (seconds <= 0 || before.status.pid != after.status.pid ||
      after.status.uptime_seconds < before.status.uptime_seconds) {
    return std::nullopt;
  }
  const CounterRates rates(before.status.counters, after.status.counters, seconds);
  TopSample sample{.time = after.time, .seconds = seconds};
  add_state(rates, after.status, sample);
  add_throughput(rates, sample);
  add_requests(rates, sample);
  add_stores(rates, sample);
  add_mounts(rates, after.status, sample);
  std::ranges::copy_if(after.jobs, std::back_inserter(sample.jobs),
                       [](const JobView& job) { return !job.ended(); });
  sample.slow = after.slow;
  return sample;
}

}  // namespace leat
