// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace leat {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<const Counter*> counters;
  std::vector<const Gauge*> gauges;
};

// Never destroyed: metrics of static life unregister themselves after main.
Registry& registry() {
  static auto* instance = new Registry();
  return *instance;
}

struct Family {
  std::string help;
  const char* type;
  std::vector<MetricSample> samples;
};

std::map<std::string, Family> gather() {
  std::map<std::string, Family> families;
  auto add = [&](const auto& metric, const char* type) {
    Family& family = families[metric.name()];
    family.help = metric.help();
    family.type = type;
    family.samples.push_back({metric.name(), metric.labels(), static_cast<double>(metric.value())});
  };
  std::lock_guard lock(registry().mutex);
  for (const Counter* counter : registry().counters) add(*counter, "counter");
  for (const Gauge* gauge : registry().gauges) add(*gauge, "gauge");
  return families;
}

}  // namespace

Counter::Counter(std::string name, std::string help, std::string labels)
    : name_(std::move(name)), help_(std::move(help)), labels_(std::move(labels)) {
  std::lock_guard lock(registry().mutex);
  registry().counters.push_back(this);
}

Counter::~Counter() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().counters, this);
}

size_t Counter::thread_shard() {
  static std::atomic<size_t> next = 0;
  thread_local size_t mine = next.fetch_add(1) % kShards;
  return mine;
}

uint64_t Counter::value() const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.value.load(std::memory_order_relaxed);
  return sum;
}

Gauge::Gauge(std::string name, std::string help, std::function<double()> read, std::string labels)
    : name_(std::move(name)),
      help_(std::move(help)),
      labels_(std::move(labels)),
      read_(std::move(read)) {
  std::lock_guard lock(registry().mutex);
  registry().gauges.push_back(this);
}

Gauge::~Gauge() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().gauges, this);
}

std::string metrics_text() {
  std::string text;
  for (const auto& [name, family] : gather()) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, family.type);
    for (const MetricSample& sample : family.samples) {
      std::string labels = sample.labels.empty() ? "" : "{" + sample.labels + "}";
      text += fmt::format("{}{} {:.17g}\n", name, labels, sample.value);
    }
  }
  return text;
}

std::vector<MetricSample> metrics_samples() {
  std::vector<MetricSample> all;
  for (auto& [name, family] : gather()) {
    all.insert(all.end(), family.samples.begin(), family.samples.end());
  }
  return all;
}

}  // namespace leat
