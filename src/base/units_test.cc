// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

TEST(Units, BytesInEveryForm) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("64K").value(), 65536u);
  EXPECT_EQ(parse_bytes("64 KiB").value(), 65536u);
  EXPECT_EQ(parse_bytes("64KB").value(), 64000u);
  EXPECT_EQ(parse_bytes("1.5GiB").value(), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes(" 2T ").value(), 2 * kTiB);
}

TEST(Units, BytesRefuseNonsense) {
  for (const char* text : {"", "G", "-1", "1X", "1 G B", "nan", "inf", "1e400", "99999999T"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Units, BytesPrint) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(65536), "64.0 KiB");
  EXPECT_EQ(format_bytes(3 * kGiB / 2), "1.5 GiB");
  EXPECT_EQ(format_bytes(kGiB - 1), "1.0 GiB");
}

TEST(Units, DurationsInEveryForm) {
  EXPECT_EQ(parse_duration("250ms").value(), 250ms);
  EXPECT_EQ(parse_duration("1h30m").value(), 90min);
  EXPECT_EQ(parse_duration("7d").value(), 168h);
  EXPECT_EQ(parse_duration("0.5s").value(), 500ms);
  for (const char* text : {"", "60", "s", "1h-3m", "5x", "1d garbage"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Units, DurationsSurviveARoundTrip) {
  for (auto duration : {1ms, 250ms, 1000ms, 60000ms, 5400000ms, 90061000ms}) {
    EXPECT_EQ(parse_duration(format_duration(duration)).value(), duration);
  }
}

}  // namespace
}  // namespace leat
