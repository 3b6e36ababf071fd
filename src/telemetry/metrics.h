// SPDX-License-Identifier: Apache-2.0
// Metrics: counters that cost one uncontended add on the hot path and are gathered when scraped,
// gauges that are read when scraped, and the Prometheus text form of both.
//
// A room declares its metrics as constants of namespace scope in one .cc file; names are
// leat_<room>_<what>_<unit>[_total], label sets are fixed when declared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace leat {

// Monotone. Sharded by thread, so that two cores never write one cache line. Registers itself for
// the life of the process.
class Counter {
 public:
  // `labels` in exposition form without braces: R"(origin="cache")". May be empty.
  Counter(std::string name, std::string help, std::string labels = "");
  ~Counter();
  Counter(const Counter&) = delete;

  void add(uint64_t amount = 1) {
    shards_[thread_shard()].value.fetch_add(amount, std::memory_order_relaxed);
  }
  uint64_t value() const;

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::string& labels() const { return labels_; }

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::atomic<uint64_t> value = 0;
  };
  static size_t thread_shard();

  const std::string name_, help_, labels_;
  std::array<Shard, kShards> shards_;
};

// A value read at scrape time from its owner. Unregisters itself.
class Gauge {
 public:
  Gauge(std::string name, std::string help, std::function<double()> read, std::string labels = "");
  ~Gauge();
  Gauge(const Gauge&) = delete;

  double value() const { return read_(); }
  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::string& labels() const { return labels_; }

 private:
  const std::string name_, help_, labels_;
  const std::function<double()> read_;
};

// All metrics in Prometheus text exposition format 0.0.4, sorted by name.
std::string metrics_text();

struct MetricSample {
  std::string name;
  std::string labels;
  double value;
};
// The same as data, for `leat status`.
std::vector<MetricSample> metrics_samples();

}  // namespace leat
