// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog_metrics.h"

namespace leat::catalog_metrics {
namespace {

constexpr const char* kLookups = "Names looked up: answered from memory (hit) or not";

}  // namespace

Counter lookup_hits("leat_catalog_lookups_total", kLookups, R"(result="hit")");
Counter lookup_misses("leat_catalog_lookups_total", kLookups, R"(result="miss")");
Counter listings("leat_catalog_listings_total", "Directories listed from the store");
Counter checks("leat_catalog_checks_total", "Single names asked of the store");
Counter hidden_names("leat_catalog_hidden_names_total",
                     "Keys in listings that cannot be shown as a name in a directory");
const MetricFamily names(MetricType::kGauge, "leat_catalog_names",
                         "Names and directories kept in memory");

}  // namespace leat::catalog_metrics
