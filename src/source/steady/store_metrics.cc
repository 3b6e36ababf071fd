// SPDX-License-Identifier: Apache-2.0
#include "source/steady/store_metrics.h"

#include "source/source_metrics.h"

namespace leat {
namespace {

const MetricFamily kSeconds(MetricType::kHistogram, "leat_source_request_seconds",
                            "How long requests to a store took, each attempt for itself",
                            "store,store_id,store_op");
const MetricFamily kBytes(MetricType::kCounter, "leat_source_store_read_bytes_total",
                          "Bytes that reads of a store brought", "store,store_id");
const MetricFamily kFailed(MetricType::kCounter, "leat_source_store_errors_total",
                           "Attempts that a store failed", "store,store_id,reason");

std::string with(const std::string& labels, std::string_view name, std::string_view value) {
  return labels + "," + metric_label(name, value);
}

}  // namespace

StoreMetrics::StoreMetrics(const std::string& labels)
    : stat_(kSeconds, with(labels, "store_op", "stat")),
      list_(kSeconds, with(labels, "store_op", "list")),
      read_(kSeconds, with(labels, "store_op", "read")),
      change_(kSeconds, with(labels, "store_op", "change")),
      read_bytes_(kBytes, labels),
      throttled_(kFailed, with(labels, "reason", "throttled")),
      failed_(kFailed, with(labels, "reason", "failed")) {}

void StoreMetrics::attempt(std::string_view verb, Clock::duration took, const Status* failure,
                           uint64_t bytes) {
  const bool read = verb == "read";
  Histogram& seconds = read ? read_ : verb == "stat" ? stat_ : verb == "list" ? list_ : change_;
  seconds.observe(took);
  if (failure == nullptr) {
    if (read) read_bytes_.add(bytes);
  } else if (failure->code() == StatusCode::kThrottled) {
    throttled_.add();
  } else if (source_metrics::is_failure(failure->code())) {
    failed_.add();
  }
}

}  // namespace leat
