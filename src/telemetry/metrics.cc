// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/check.h"

namespace leat {
namespace {

constexpr double kMicrosecond = 1e-6;

struct Registry {
  std::mutex mutex;
  std::map<std::string, MetricFamily> families;
  std::vector<const Counter*> counters;
  std::vector<const Gauge*> gauges;
  std::vector<const Histogram*> histograms;
};

// Never destroyed: metrics of static lifetime unregister themselves after main.
Registry& registry() {
  static auto* instance = new Registry();
  return *instance;
}

// "origin,kind" of R"(origin="a",kind="b")".
std::string label_names(std::string_view labels) {
  std::string names;
  bool quoted = false, name = true;
  for (size_t i = 0; i < labels.size(); ++i) {
    const char c = labels[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      name = c == ',' || (name && c != '=');
      if (name) names += c;
    }
  }
  return names;
}

template <class Metric>
void enter(std::vector<const Metric*> Registry::* list, const Metric* metric, MetricType type) {
  LEAT_CHECK(metric->family().labels() == label_names(metric->labels()));
  LEAT_CHECK(metric->family().type() == type ||
             (type == MetricType::kGauge && metric->family().type() == MetricType::kCounter));
  std::lock_guard lock(registry().mutex);
  (registry().*list).push_back(metric);
}

template <class Metric>
void leave(std::vector<const Metric*> Registry::* list, const Metric* metric) {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().*list, metric);
}

double value_of(const Counter& counter) {
  const auto value = static_cast<double>(counter.value());
  return counter.family().unit() == "seconds" ? value * kMicrosecond : value;
}

std::string with(const std::string& labels, std::string_view more) {
  return labels.empty() ? std::string(more) : fmt::format("{},{}", labels, more);
}

// In the order of the text form: cumulative buckets, sum, count.
void add_samples(const Histogram& histogram, bool buckets, std::vector<MetricSample>& samples) {
  const std::string& name = histogram.family().name();
  const Histogram::Value value = histogram.value();
  uint64_t below = 0;
  for (size_t i = 0; buckets && i < value.buckets.size(); ++i) {
    below += value.buckets[i];
    const bool last = i == Histogram::kBounds.size();
    const std::string bound = last ? "+Inf" : fmt::format("{}", Histogram::kBounds[i]);
    samples.push_back({name + "_bucket", with(histogram.labels(), fmt::format(R"(le="{}")", bound)),
                       static_cast<double>(below)});
  }
  samples.push_back({name + "_sum", histogram.labels(), value.sum});
  samples.push_back({name + "_count", histogram.labels(), static_cast<double>(value.count)});
}

struct Gathered {
  const MetricFamily* family;
  std::vector<MetricSample> samples;
};

std::map<std::string, Gathered> gather(bool buckets) {
  std::map<std::string, Gathered> all;
  std::lock_guard lock(registry().mutex);
  auto of = [&](const auto& metric) -> std::vector<MetricSample>& {
    Gathered& gathered = all[metric.family().name()];
    gathered.family = &registry().families.at(metric.family().name());
    return gathered.samples;
  };
  for (const Counter* counter : registry().counters) {
    of(*counter).push_back({counter->family().name(), counter->labels(), value_of(*counter)});
  }
  for (const Gauge* gauge : registry().gauges) {
    of(*gauge).push_back({gauge->family().name(), gauge->labels(), gauge->value()});
  }
  for (const Histogram* histogram : registry().histograms) {
    add_samples(*histogram, buckets, of(*histogram));
  }
  return all;
}

}  // namespace

std::string_view to_string(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

std::string_view to_string(Stability stability) {
  return stability == Stability::kStable ? "stable" : "experimental";
}

MetricFamily::MetricFamily(MetricType type, std::string name, std::string help, std::string labels,
                           Stability stability)
    : type_(type),
      name_(std::move(name)),
      help_(std::move(help)),
      labels_(std::move(labels)),
      stability_(stability) {
  std::lock_guard lock(registry().mutex);
  const auto [known, fresh] = registry().families.try_emplace(name_, *this);
  LEAT_CHECK(fresh || (known->second.type_ == type_ && known->second.help_ == help_ &&
                       known->second.labels_ == labels_ && known->second.stability_ == stability_));
}

std::string_view MetricFamily::unit() const {
  std::string_view name = name_;
  if (name.ends_with("_total")) name.remove_suffix(std::string_view("_total").size());
  for (std::string_view unit : {"requests_per_second", "bytes", "seconds"}) {
    if (name.ends_with(unit)) return unit;
  }
  return {};
}

std::vector<MetricFamily> metric_catalogue() {
  std::vector<MetricFamily> all;
  std::lock_guard lock(registry().mutex);
  for (const auto& [name, family] : registry().families) all.push_back(family);
  return all;
}

std::string metric_label(std::string_view name, std::string_view value) {
  std::string escaped;
  for (char c : value) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return fmt::format(R"({}="{}")", name, escaped);
}

Counter::Counter(const MetricFamily& family, std::string labels)
    : family_(family), labels_(std::move(labels)) {
  enter(&Registry::counters, this, MetricType::kCounter);
}

Counter::Counter(std::string name, std::string help, std::string labels, Stability stability)
    : Counter(MetricFamily(MetricType::kCounter, std::move(name), std::move(help),
                           label_names(labels), stability),
              labels) {}

Counter::~Counter() {
  leave(&Registry::counters, this);
}

size_t Counter::thread_shard() {
  static std::atomic<size_t> next = 0;
  thread_local size_t mine = next.fetch_add(1);
  return mine;
}

uint64_t Counter::value() const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.value.load(std::memory_order_relaxed);
  return sum;
}

Gauge::Gauge(const MetricFamily& family, std::function<double()> read, std::string labels)
    : family_(family), labels_(std::move(labels)), read_(std::move(read)) {
  enter(&Registry::gauges, this, MetricType::kGauge);
}

Gauge::~Gauge() {
  leave(&Registry::gauges, this);
}

Histogram::Histogram(const MetricFamily& family, std::string labels)
    : family_(family), labels_(std::move(labels)) {
  enter(&Registry::histograms, this, MetricType::kHistogram);
}

Histogram::~Histogram() {
  leave(&Registry::histograms, this);
}

void Histogram::observe(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const size_t bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  Shard& shard = shards_[Counter::thread_shard() % kShards];
  shard.buckets[bucket].fetch_add(1, std::memory_order_relaxed);
  shard.nanoseconds.fetch_add(time.count(), std::memory_order_relaxed);
}

Histogram::Value Histogram::value() const {
  Value value;
  uint64_t nanoseconds = 0;
  for (const Shard& shard : shards_) {
    for (size_t i = 0; i < value.buckets.size(); ++i) {
      value.buckets[i] += shard.buckets[i].load(std::memory_order_relaxed);
    }
    nanoseconds += shard.nanoseconds.load(std::memory_order_relaxed);
  }
  for (uint64_t bucket : value.buckets) value.count += bucket;
  value.sum = std::chrono::duration<double>(std::chrono::nanoseconds(nanoseconds)).count();
  return value;
}

std::string metrics_text(const std::function<bool(std::string_view labels)>& shown) {
  std::string text;
  for (auto& [name, gathered] : gather(true)) {
    if (shown) {
      std::erase_if(gathered.samples, [&](const auto& sample) { return !shown(sample.labels); });
    }
    if (gathered.samples.empty()) continue;
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, gathered.family->help(), name,
                        to_string(gathered.family->type()));
    for (const MetricSample& sample : gathered.samples) {
      const std::string labels = sample.labels.empty() ? "" : "{" + sample.labels + "}";
      text += fmt::format("{}{} {}\n", sample.name, labels, sample.value);
    }
  }
  return text;
}

std::vector<MetricSample> metrics_samples() {
  std::vector<MetricSample> all;
  for (auto& [name, gathered] : gather(false)) {
    all.insert(all.end(), gathered.samples.begin(), gathered.samples.end());
  }
  return all;
}

}  // namespace leat
