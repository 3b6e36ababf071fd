// SPDX-License-Identifier: Apache-2.0
#include "source/source_metrics.h"

#include "telemetry/log.h"

namespace leat::source_metrics {
namespace {

constexpr char kRequests[] = "leat_source_requests_total";
constexpr char kRequestsHelp[] = "Requests asked of the stores, retries not counted";

}  // namespace

Counter stat_requests(kRequests, kRequestsHelp, R"(store_op="stat")");
Counter list_requests(kRequests, kRequestsHelp, R"(store_op="list")");
Counter read_requests(kRequests, kRequestsHelp, R"(store_op="read")");
Counter retries("leat_source_retries_total", "Requests sent again after a temporary failure");
Counter bytes("leat_source_bytes_total", "Bytes read from the stores");
Counter errors("leat_source_errors_total", "Requests that the stores failed");
Counter left_out("leat_source_left_out_total",
                 "Names left out of listings because they cannot be addressed");

void count_failure(StatusCode code) {
  if (code != StatusCode::kNotFound && code != StatusCode::kChanged &&
      code != StatusCode::kCancelled) {
    errors.add();
  }
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
