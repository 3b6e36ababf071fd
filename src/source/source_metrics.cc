// SPDX-License-Identifier: Apache-2.0
#include "source/source_metrics.h"

#include "source/shim/leat_store.h"
#include "telemetry/log.h"

namespace leat::source_metrics {
namespace {

constexpr char kRequests[] = "leat_source_requests_total";
constexpr char kRequestsHelp[] = "Requests to stores; each attempt counts";
constexpr char kRetries[] = "leat_source_retries_total";
constexpr char kRetriesHelp[] = "Requests retried after a temporary failure";
constexpr char kWaits[] = "leat_source_wait_seconds_total";
constexpr char kWaitsHelp[] =
    "Time that requests waited for the limiter of a store, or for their next attempt";

const MetricFamily kHttpRequests(
    MetricType::kCounter, "leat_source_http_requests_total",
    "HTTP requests sent, including those for credentials; without CONNECT and redirects", "method");
const MetricFamily kHttpReceived(MetricType::kCounter, "leat_source_http_received_bytes_total",
                                 "Bytes received in HTTP response bodies, errors included");
const MetricFamily kHttpSent(MetricType::kCounter, "leat_source_http_sent_bytes_total",
                             "Bytes sent in HTTP request bodies");
const MetricFamily kHttpConnections(MetricType::kCounter, "leat_source_http_connections_total",
                                    "Connections opened for HTTP requests", "",
                                    Stability::kExperimental);

// Read at scrape time from the shim, which sends the HTTP requests.
struct HttpRequests : Gauge {
  HttpRequests(std::string_view method, size_t index)
      : Gauge(
            kHttpRequests,
            [index] { return static_cast<double>(leat_http_traffic_now().requests[index]); },
            metric_label("method", method)) {}
};
const HttpRequests http_get("GET", 0), http_head("HEAD", 1), http_put("PUT", 2),
    http_post("POST", 3), http_delete("DELETE", 4), http_other("other", 5);
const Gauge http_received(kHttpReceived, [] {
  return static_cast<double>(leat_http_traffic_now().received_bytes);
});
const Gauge http_sent(kHttpSent,
                      [] { return static_cast<double>(leat_http_traffic_now().sent_bytes); });
const Gauge http_connections(kHttpConnections, [] {
  return static_cast<double>(leat_http_traffic_now().connections);
});

}  // namespace

Counter stat_requests(kRequests, kRequestsHelp, R"(store_op="stat")");
Counter list_requests(kRequests, kRequestsHelp, R"(store_op="list")");
Counter read_requests(kRequests, kRequestsHelp, R"(store_op="read")");
Counter write_requests(kRequests, kRequestsHelp, R"(store_op="write")");
Counter remove_requests(kRequests, kRequestsHelp, R"(store_op="remove")");
Counter retries(kRetries, kRetriesHelp, R"(reason="unavailable")");
Counter retries_throttled(kRetries, kRetriesHelp, R"(reason="throttled")");
Counter retries_after_timeout(kRetries, kRetriesHelp, R"(reason="timeout")");
Counter retry_budget_exhausted(
    "leat_source_retry_budget_exhausted_total",
    "Retries not sent because the retry budget of the store is exhausted", "",
    Stability::kExperimental);
Counter throttled("leat_source_throttled_total",
                  "Responses of stores that ask for a lower request rate");
Counter timeouts("leat_source_timeouts_total",
                 "Attempts that timed out waiting for data of the store");
Counter circuit_opened(
    "leat_source_circuit_opened_total",
    "Times that the circuit breaker of a store opened because it failed every request");
Counter circuit_rejected("leat_source_circuit_rejected_total",
                         "Requests rejected while the circuit breaker of a store was open");
Counter pacer_wait(kWaits, kWaitsHelp, R"(wait="limiter")");
Counter retry_wait(kWaits, kWaitsHelp, R"(wait="retry")");
Counter written_bytes("leat_source_written_bytes_total", "Bytes written to the stores");
Counter skipped_keys("leat_source_skipped_keys_total",
                     "Keys skipped in listings because they cannot be addressed");

bool is_failure(StatusCode code) {
  return code != StatusCode::kNotFound && code != StatusCode::kVersionChanged &&
         code != StatusCode::kCancelled;
}

void report_skipped_keys(std::once_flag& logged, std::string_view store, const SkippedKeys& names,
                         std::string_view why) {
  if (names.count == 0) return;
  skipped_keys.add(names.count);
  std::call_once(logged, [&] {
    log::warning(
        "{}: {} names are skipped in a listing, the first '{}': {}. Logged once for this store; "
        "leat_source_skipped_keys_total counts all",
        store, names.count, names.example, why);
  });
}

}  // namespace leat::source_metrics
