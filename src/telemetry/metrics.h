// SPDX-License-Identifier: Apache-2.0
// Metrics: counters, histograms, gauges, and the Prometheus text form of all. An add to a counter
// or histogram is one uncontended add; the shards are summed when scraped. Gauges are read when
// scraped.
//
// A module declares its families as constants of namespace scope in one .cc file. So the catalogue
// (docs/metrics.md) is known before anything is counted. Names are
// leat_<module>_<what>_<unit>[_total], in base units (bytes, seconds). A metric's label set is
// fixed when it is created.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };
std::string_view to_string(MetricType type);

// Stable: name, labels, unit and meaning stay within a major version. Experimental: they follow the
// implementation and may change with each version.
enum class Stability : uint8_t { kStable, kExperimental };
std::string_view to_string(Stability stability);

// Properties that all metrics of a name share. Stays in the catalogue for the life of the process.
// A second declaration of a name must be equal.
class MetricFamily {
 public:
  // `labels`: label names, "store,store_id", in the order in which each metric gives their values.
  MetricFamily(MetricType type, std::string name, std::string help, std::string labels = "",
               Stability stability = Stability::kStable);

  MetricType type() const { return type_; }
  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::string& labels() const { return labels_; }
  Stability stability() const { return stability_; }
  // Derived from the name: "bytes", "seconds", "requests_per_second"; empty for a plain count.
  std::string_view unit() const;

 private:
  MetricType type_;
  std::string name_, help_, labels_;
  Stability stability_;
};

// Returns all declared families, sorted by name.
std::vector<MetricFamily> metric_catalogue();

// Returns `name="value"`, escaped for the exposition format. Join several with commas.
std::string metric_label(std::string_view name, std::string_view value);

// Monotonic. Sharded by thread, so that two cores never write the same cache line.
class Counter {
 public:
  // `labels` in exposition form without braces: R"(origin="cache")". May be empty.
  Counter(const MetricFamily& family, std::string labels);
  // Declares its own family.
  Counter(std::string name, std::string help, std::string labels = "",
          Stability stability = Stability::kStable);
  ~Counter();
  Counter(const Counter&) = delete;

  void add(uint64_t amount = 1) {
    shards_[thread_shard() % kShards].value.fetch_add(amount, std::memory_order_relaxed);
  }
  // For a family in seconds, which counts microseconds internally.
  void add(std::chrono::nanoseconds time) {
    if (time.count() > 0) add(static_cast<uint64_t>(time.count() / 1000));
  }
  // In the unit of add().
  uint64_t value() const;

  const MetricFamily& family() const { return family_; }
  const std::string& labels() const { return labels_; }

  // Returns an index of the calling thread, dense from 0.
  static size_t thread_shard();

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::atomic<uint64_t> value = 0;
  };

  const MetricFamily family_;
  const std::string labels_;
  std::array<Shard, kShards> shards_;
};

// A value that is read from its owner at scrape time. Its family has the type counter if the value
// never falls.
class Gauge {
 public:
  Gauge(const MetricFamily& family, std::function<double()> read, std::string labels = "");
  ~Gauge();
  Gauge(const Gauge&) = delete;

  double value() const { return read_(); }
  const MetricFamily& family() const { return family_; }
  const std::string& labels() const { return labels_; }

 private:
  const MetricFamily family_;
  const std::string labels_;
  const std::function<double()> read_;
};

// Durations, in the same buckets everywhere in Leat.
class Histogram {
 public:
  // Upper bounds in seconds; the infinite bucket comes on top.
  static constexpr std::array<double, 13> kBounds = {
      0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30};

  Histogram(const MetricFamily& family, std::string labels);
  ~Histogram();
  Histogram(const Histogram&) = delete;

  void observe(std::chrono::nanoseconds time);

  struct Value {
    std::array<uint64_t, kBounds.size() + 1> buckets{};  // not cumulative
    uint64_t count = 0;
    double sum = 0;  // seconds
  };
  Value value() const;

  const MetricFamily& family() const { return family_; }
  const std::string& labels() const { return labels_; }

 private:
  static constexpr size_t kShards = 4;
  struct alignas(64) Shard {
    std::array<std::atomic<uint64_t>, kBounds.size() + 1> buckets{};
    std::atomic<uint64_t> nanoseconds = 0;
  };

  const MetricFamily family_;
  const std::string labels_;
  std::array<Shard, kShards> shards_;
};

// Returns all metrics in Prometheus text exposition format 0.0.4, sorted by name. `shown`, if not
// empty, selects metrics by their labels.
std::string metrics_text(const std::function<bool(std::string_view labels)>& shown = {});

struct MetricSample {
  std::string name;
  std::string labels;
  double value;
};
// Returns the same as data, for `leat status`. A histogram gives NAME_count and NAME_sum.
std::vector<MetricSample> metrics_samples();

}  // namespace leat
