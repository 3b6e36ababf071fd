// SPDX-License-Identifier: Apache-2.0
#include "source/source_metrics.h"

#include "source/shim/leat_store.h"
#include "telemetry/log.h"

namespace leat::source_metrics {
namespace {

constexpr char kRequests[] = "leat_source_requests_total";
constexpr char kRequestsHelp[] = "Requests made of the stores, each attempt for itself";
constexpr char kRetries[] = "leat_source_retries_total";
constexpr char kRetriesHelp[] = "Requests sent again after a temporary failure";
constexpr char kWaits[] = "leat_source_wait_seconds_total";
constexpr char kWaitsHelp[] =
    "Time in which requests waited for their turn at a store, or for their next attempt";

const MetricFamily kHttpRequests(
    MetricType::kCounter, "leat_source_http_requests_total",
    "HTTP requests sent, for credentials as well; without CONNECT and those after a redirection",
    "method");
const MetricFamily kHttpReceived(MetricType::kCounter, "leat_source_http_received_bytes_total",
                                 "Bytes received in bodies of HTTP answers, refusals included");
const MetricFamily kHttpSent(MetricType::kCounter, "leat_source_http_sent_bytes_total",
                             "Bytes of the bodies of HTTP requests that were sent");
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
Counter retries_silent(kRetries, kRetriesHelp, R"(reason="silent")");
Counter retries_held_back("leat_source_retries_held_back_total",
                          "Retries not sent because the store fails most requests", "",
                          Stability::kExperimental);
Counter throttled("leat_source_throttled_total",
                  "Answers by which the stores asked for fewer requests");
Counter silences("leat_source_silences_total", "Attempts ended because the store fell silent");
Counter circuit_openings("leat_source_circuit_openings_total",
                         "Times that a store was left alone because it failed every request");
Counter circuit_refusals("leat_source_circuit_refusals_total",
                         "Requests failed unasked while a store was left alone");
Counter turn_wait(kWaits, kWaitsHelp, R"(wait="turn")");
Counter retry_wait(kWaits, kWaitsHelp, R"(wait="retry")");
Counter bytes("leat_source_bytes_total", "Bytes of reads that the stores answered in full");
Counter written_bytes("leat_source_written_bytes_total", "Bytes written to the stores");
Counter errors("leat_source_errors_total", "Attempts at requests that the stores failed");
Counter left_out("leat_source_left_out_total",
                 "Names left out of listings because they cannot be addressed");

bool is_failure(StatusCode code) {
  return code != StatusCode::kNotFound && code != StatusCode::kChanged &&
         code != StatusCode::kCancelled;
}

void count_failure(StatusCode code) {
  if (is_failure(code)) errors.add();
}

void report_left_out(std::once_flag& said, std::string_view store, const LeftOut& names,
                     std::string_view why) {
  if (names.count == 0) return;
  left_out.add(names.count);
  std::call_once(said, [&] {
    log::warning(
        "{}: {} names are left out of a listing, the first '{}': {}. Said once for this store; "
        "leat_source_left_out_total counts all",
        store, names.count, names.example, why);
  });
}

}  // namespace leat::source_metrics
