// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_history.h"

#include <unistd.h>

#include "telemetry/metrics.h"

namespace leat {
namespace {

constexpr size_t kSamplesMax = std::chrono::hours(1) / DaemonHistory::kStep + 1;

// The charts show bytes to programs by origin, loaded bytes, requests to stores, and memory.
std::vector<std::string> charted_metrics() {
  return {
      R"(leat_fetch_bytes_total{origin="memory"})",
      R"(leat_fetch_bytes_total{origin="cache"})",
      R"(leat_fetch_bytes_total{origin="source"})",
      R"(leat_fetch_bytes_total{origin="local_disk"})",
      "leat_fetch_source_bytes_total",
      R"(leat_fuse_opens_total{mode="passthrough"})",
      R"(leat_source_requests_total{store_op="read"})",
      R"(leat_source_requests_total{store_op="list"})",
      R"(leat_source_requests_total{store_op="stat"})",
      R"(leat_source_requests_total{store_op="write"})",
      R"(leat_source_requests_total{store_op="remove"})",
      "leat_fetch_memory_bytes",
      "process_resident_memory_bytes",
  };
}

}  // namespace

DaemonHistory::DaemonHistory() : metrics_(charted_metrics(), kSamplesMax) {}

void DaemonHistory::sample() {
  const auto samples = metrics_samples();
  metrics_.record(std::chrono::steady_clock::now(), samples);
}

HistoryView DaemonHistory::view() const {
  const MetricHistory::View kept = metrics_.view();
  const auto now = std::chrono::steady_clock::now();
  HistoryView view{.pid = getpid(), .step_seconds = std::chrono::duration<double>(kStep).count()};
  for (const auto at : kept.at) {
    view.ages_seconds.push_back(std::chrono::duration<double>(now - at).count());
  }
  for (size_t i = 0; i < kept.values.size(); ++i) {
    view.series[metrics_.names()[i]] = kept.values[i];
  }
  return view;
}

}  // namespace leat
