// SPDX-License-Identifier: Apache-2.0
#include "runtime/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace leat {
namespace {

class DescriptorLimitTest : public ::testing::Test {
 protected:
  DescriptorLimitTest() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimitTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  bool set(rlim_t limit) {
    const rlimit set{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &set) == 0;
  }

  rlimit before_{};
};

TEST_F(DescriptorLimitTest, SmallLimitIsHalved) {
  ASSERT_TRUE(set(1024));
  EXPECT_EQ(descriptor_limit(), 1024u);
  EXPECT_EQ(descriptors_beside_caches(), 512u);
  EXPECT_EQ(requests_within_descriptors(1024), 128u);
  EXPECT_EQ(requests_within_descriptors(16), 16u);
}

TEST_F(DescriptorLimitTest, TinyLimitLeavesSomeRequests) {
  ASSERT_TRUE(set(20));
  EXPECT_EQ(requests_within_descriptors(1024), 4u);
}

TEST_F(DescriptorLimitTest, LargeLimitAllowsAThousandRequests) {
  if (before_.rlim_max < 8192) GTEST_SKIP() << "the hard limit is " << before_.rlim_max;
  ASSERT_TRUE(set(8192));
  EXPECT_EQ(descriptors_beside_caches(), 4096u);
  EXPECT_EQ(requests_within_descriptors(2000), 1024u);
}

}  // namespace
}  // namespace leat
