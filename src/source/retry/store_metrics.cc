// SPDX-License-Identifier: Apache-2.0
#include "source/retry/store_metrics.h"

#include "source/store_counters.h"

namespace leat {
namespace {

const MetricFamily kSeconds(MetricType::kHistogram, "leat_source_request_seconds",
                            "Duration of requests to a store; each attempt counts",
                            "store,store_id,store_op");

}  // namespace

StoreMetrics::StoreMetrics(const std::string& labels)
    : stat_(kSeconds, with_label(labels, "store_op", "stat")),
      list_(kSeconds, with_label(labels, "store_op", "list")),
      read_(kSeconds, with_label(labels, "store_op", "read")),
      change_(kSeconds, with_label(labels, "store_op", "change")) {}

void StoreMetrics::attempt(std::string_view verb, Clock::duration took) {
  Histogram& seconds = verb == "read"   ? read_
                       : verb == "stat" ? stat_
                       : verb == "list" ? list_
                                        : change_;
  seconds.observe(took);
}

}  // namespace leat
