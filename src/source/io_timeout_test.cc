// SPDX-License-Identifier: Apache-2.0
#include "source/io_timeout.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

StoreUrl url(const std::string& io_timeout) {
  StoreUrl made{.scheme = "s3", .bucket = "b", .prefix = "", .options = {}};
  if (!io_timeout.empty()) made.options["io_timeout"] = io_timeout;
  return made;
}

TEST(IoTimeout, IsADurationOrNever) {
  EXPECT_EQ(io_timeout_of(url("")).value(), 5min);
  EXPECT_EQ(io_timeout_of(url("90s")).value(), 90s);
  EXPECT_EQ(io_timeout_of(url("0s")).value(), 0s);
  EXPECT_EQ(io_timeout_of(url("never")).value(), Clock::duration::max());
  EXPECT_EQ(io_timeout_of(url("100000d")).value(), Clock::duration::max()) << "as good as never";
  for (const char* wrong : {"5", "soon", "-1s"}) {
    Result<Clock::duration> time = io_timeout_of(url(wrong));
    ASSERT_FALSE(time) << wrong;
    EXPECT_EQ(time.error().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(time.error().message().contains("io_timeout")) << time.error().message();
  }
}

TEST(IoTimeout, CommandKeepsAGivenIoTimeout) {
  EXPECT_EQ(io_timeout_of(without_waiting(url(""))).value(), 0s);
  EXPECT_EQ(io_timeout_of(without_waiting(url("7s"))).value(), 7s);
}

TEST(IoTimeout, IsSaidInWords) {
  EXPECT_EQ(waits_text(5min), "up to 5m (io_timeout)");
  EXPECT_EQ(waits_text(Clock::duration::max()), "until it does (io_timeout=never)");
  EXPECT_EQ(waits_text(0s), "");
}

}  // namespace
}  // namespace leat
