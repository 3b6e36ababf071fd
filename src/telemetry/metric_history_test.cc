// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metric_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr auto kStart = MetricHistory::Time(1h);

TEST(MetricHistory, KeepsTheNamesThatItWasMadeFor) {
  MetricHistory history({R"(a_total{x="1"})", "b"}, 10);
  EXPECT_TRUE(history.view().at.empty());
  history.record(kStart, {{"a_total", R"(x="1")", 7}, {"a_total", R"(x="2")", 8}, {"c", "", 9}});
  history.record(kStart + 5s, {{"a_total", R"(x="1")", 9}, {"b", "", 2}});
  const MetricHistory::View view = history.view();
  EXPECT_THAT(view.at, ElementsAre(kStart, kStart + 5s));
  ASSERT_THAT(view.values, SizeIs(2));
  EXPECT_THAT(view.values[0], ElementsAre(7, 9));
  EXPECT_THAT(view.values[1], ElementsAre(0, 2));
}

TEST(MetricHistory, ForgetsTheOldestFirst) {
  MetricHistory history({"a"}, 3);
  for (int i = 0; i < 8; ++i) {
    history.record(kStart + i * 1s, {{"a", "", static_cast<double>(i)}});
  }
  const MetricHistory::View view = history.view();
  EXPECT_THAT(view.at, ElementsAre(kStart + 5s, kStart + 6s, kStart + 7s));
  EXPECT_THAT(view.values[0], ElementsAre(5, 6, 7));
}

}  // namespace
}  // namespace leat
