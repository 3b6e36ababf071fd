// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace leat {
namespace {

TEST(Metrics, CountersOfManyThreadsAddUp) {
  Counter counter("leat_test_events_total", "Events of a test.", R"(kind="a")");
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) counter.add();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 40000u);
}

TEST(Metrics, TextIsPrometheusExposition) {
  Counter a("leat_test_bytes_total", "Bytes.", R"(origin="cache")");
  Counter b("leat_test_bytes_total", "Bytes.", R"(origin="source")");
  Gauge gauge("leat_test_depth", "Depth.", [] { return 2.5; });
  b.add(9007199254740993ull);
  EXPECT_THAT(metrics_text(), testing::HasSubstr("# HELP leat_test_bytes_total Bytes.\n"
                                                 "# TYPE leat_test_bytes_total counter\n"
                                                 "leat_test_bytes_total{origin=\"cache\"} 0\n"
                                                 "leat_test_bytes_total{origin=\"source\"} "));
  EXPECT_THAT(metrics_text(),
              testing::HasSubstr("# TYPE leat_test_depth gauge\nleat_test_depth 2.5\n"));
}

TEST(Metrics, GoneMetricsAreNotScraped) {
  {
    Gauge gauge("leat_test_short_lived", "x", [] { return 1.0; });
  }
  EXPECT_THAT(metrics_text(), testing::Not(testing::HasSubstr("short_lived")));
}

}  // namespace
}  // namespace leat
