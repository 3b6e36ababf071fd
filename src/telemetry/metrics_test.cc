// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Metrics, CountersOfManyThreadsAddUp) {
  Counter counter("leat_test_events_total", "Events of a test", R"(kind="a")");
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
  Counter a("leat_test_bytes_total", "Bytes", R"(origin="cache")");
  Counter b("leat_test_bytes_total", "Bytes", R"(origin="source")");
  const MetricFamily depth(MetricType::kGauge, "leat_test_depth", "Depth");
  Gauge gauge(depth, [] { return 2.5; });
  b.add(40'000);
  EXPECT_THAT(metrics_text(), HasSubstr("# HELP leat_test_bytes_total Bytes\n"
                                        "# TYPE leat_test_bytes_total counter\n"
                                        "leat_test_bytes_total{origin=\"cache\"} 0\n"
                                        "leat_test_bytes_total{origin=\"source\"} 40000\n"));
  EXPECT_THAT(metrics_text(), HasSubstr("# TYPE leat_test_depth gauge\nleat_test_depth 2.5\n"));
}

TEST(Metrics, TimeIsReportedInSeconds) {
  Counter waits("leat_test_wait_seconds_total", "Waiting");
  waits.add(1500us);
  waits.add(-1s);  // a clock that was set
  EXPECT_THAT(metrics_text(), HasSubstr("\nleat_test_wait_seconds_total 0.0015\n"));
}

TEST(Metrics, HistogramBucketsAreCumulative) {
  const MetricFamily family(MetricType::kHistogram, "leat_test_seconds", "Times", "kind");
  Histogram times(family, R"(kind="a")");
  for (auto took : {10us, 100us, 101us}) times.observe(took);
  times.observe(2s);
  times.observe(1h);
  const std::string text = metrics_text();
  EXPECT_THAT(text, HasSubstr("# TYPE leat_test_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("leat_test_seconds_bucket{kind=\"a\",le=\"3e-05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("leat_test_seconds_bucket{kind=\"a\",le=\"0.0001\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("leat_test_seconds_bucket{kind=\"a\",le=\"3\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("leat_test_seconds_bucket{kind=\"a\",le=\"30\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("leat_test_seconds_bucket{kind=\"a\",le=\"+Inf\"} 5\n"
                              "leat_test_seconds_sum{kind=\"a\"} 3602.000211\n"
                              "leat_test_seconds_count{kind=\"a\"} 5\n"));
  for (const MetricSample& sample : metrics_samples())
    EXPECT_THAT(sample.name, Not(testing::EndsWith("_bucket")));
}

TEST(Metrics, DestroyedMetricsStayInTheCatalogue) {
  {
    const MetricFamily family(MetricType::kGauge, "leat_test_short_lived", "x");
    Gauge gauge(family, [] { return 1.0; });
  }
  EXPECT_THAT(metrics_text(), Not(HasSubstr("short_lived")));
  EXPECT_THAT(metric_catalogue(),
              testing::Contains(testing::Property(&MetricFamily::name, "leat_test_short_lived")));
}

TEST(Metrics, OnlyWhatIsAskedForIsShown) {
  Counter a("leat_test_shown_total", "x", R"(folder="/a")");
  Counter b("leat_test_hidden_total", "x", R"(folder="/b")");
  const std::string text =
      metrics_text([](std::string_view labels) { return labels != R"(folder="/b")"; });
  EXPECT_THAT(text, HasSubstr("leat_test_shown_total"));
  EXPECT_THAT(text, Not(HasSubstr("leat_test_hidden_total")));
}

TEST(Metrics, ValuesOfLabelsAreEscaped) {
  EXPECT_EQ(metric_label("store", "a\"b\\c\nd"), R"(store="a\"b\\c\nd")");
  const MetricFamily family(MetricType::kGauge, "leat_test_odd_labels", "x", "store,kind");
  Gauge gauge(family, [] { return 1.0; }, metric_label("store", R"(a",b="\)") + R"(,kind="c")");
  EXPECT_THAT(metrics_text(), HasSubstr(R"({store="a\",b=\"\\",kind="c"} 1)"));
}

TEST(MetricsDeathTest, AFamilyIsDeclaredOneWay) {
  const MetricFamily family(MetricType::kGauge, "leat_test_declared", "x", "kind");
  EXPECT_DEATH(MetricFamily(MetricType::kGauge, "leat_test_declared", "y", "kind"), "");
  EXPECT_DEATH(Gauge(family, [] { return 1.0; }, R"(other="a")"), "");
}

}  // namespace
}  // namespace leat
