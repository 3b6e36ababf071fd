// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace leat {
namespace {

// RFC 3720, B.4, and the usual check value.
TEST(Crc32c, PublishedVectors) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283u);
  std::vector<std::byte> zeros(32), ones(32, std::byte{0xff});
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones), 0x62a8ab43u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, ContinuesFromASeed) {
  auto all = std::as_bytes(std::span(std::string_view("123456789")));
  EXPECT_EQ(crc32c(all.subspan(4), crc32c(all.first(4))), crc32c(all));
}

}  // namespace
}  // namespace leat
