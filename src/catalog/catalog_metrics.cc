// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog_metrics.h"

namespace leat::catalog_metrics {
namespace {

constexpr const char* kLookups = "Names looked up: answered from memory (hit) or not";

}  // namespace

Counter lookup_hits("leat_catalog_lookups_total", kLookups, R"(result="hit")");
Counter lookup_misses("leat_catalog_lookups_total", kLookups, R"(result="miss")");
Counter listings("leat_catalog_listings_total", "Directory listings requested from stores");
Counter checks("leat_catalog_stat_requests_total",
               "Requests to stores for the metadata of a single name");
Counter skipped_keys("leat_catalog_skipped_keys_total",
                     "Keys skipped in listings because they cannot be names in a directory");
const MetricFamily names(MetricType::kGauge, "leat_catalog_names",
                         "Names and directories cached in memory");

}  // namespace leat::catalog_metrics
