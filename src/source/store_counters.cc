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

std::string with_reason(const std::string& labels, std::string_view reason) {
  return labels + "," + metric_label("reason", reason);
}

}  // namespace

std::string store_labels(const std::string& name, const StoreId& id) {
  return metric_label("store", name) + "," + metric_label("store_id", id.to_hex());
}

StoreCounters::StoreCounters(const std::string& name, const StoreId& id)
    : read_bytes_(kBytes, store_labels(name, id)),
      throttled_(kErrors, with_reason(store_labels(name, id), "throttled")),
      failed_(kErrors, with_reason(store_labels(name, id), "failed")) {}

void StoreCounters::add_failure(StatusCode code) {
  if (code == StatusCode::kThrottled) {
    throttled_.add();
  } else if (source_metrics::is_failure(code)) {
    failed_.add();
  }
}

}  // namespace leat
