// SPDX-License-Identifier: Apache-2.0
#include "source/store_counters.h"

#include "source/source_metrics.h"

namespace leat {
namespace {

const MetricFamily kBytes(MetricType::kCounter, "leat_source_bytes_total",
                          "Bytes read from a store, also by attempts that failed later",
                          "store,store_id");
const MetricFamily kErrors(MetricType::kCounter, "leat_source_errors_total",
                           "Failed attempts of requests to a store", "store,store_id,reason");

}  // namespace

std::string store_labels(const std::string& name, const StoreId& id) {
  return with_label(metric_label("store", name), "store_id", id.to_hex());
}

std::string with_label(const std::string& labels, std::string_view name, std::string_view value) {
  return labels + "," + metric_label(name, value);
}

StoreCounters::StoreCounters(const std::string& name, const StoreId& id)
    : read_bytes_(kBytes, store_labels(name, id)),
      throttled_(kErrors, with_label(store_labels(name, id), "reason", "throttled")),
      failed_(kErrors, with_label(store_labels(name, id), "reason", "failed")) {}

void StoreCounters::add_failure(StatusCode code) {
  if (code == StatusCode::kThrottled) {
    throttled_.add();
  } else if (source_metrics::is_failure(code)) {
    failed_.add();
  }
}

}  // namespace leat
