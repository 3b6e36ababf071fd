// SPDX-License-Identifier: Apache-2.0
// The counters of this module.
#pragma once

#include "telemetry/metrics.h"

namespace leat::catalog_metrics {

extern Counter lookup_hits;
extern Counter lookup_misses;
extern Counter listings;
extern Counter checks;
extern Counter skipped_keys;
extern const MetricFamily names;  // a gauge

}  // namespace leat::catalog_metrics
