// SPDX-License-Identifier: Apache-2.0
// Tests requests that the name node denies to a user.
#include <gmock/gmock.h>

#include "source/aws_test.h"
#include "source/hdfs_test.h"

namespace leat {
namespace {

using testing::content;
using ::testing::HasSubstr;
using testing::HdfsCluster;
using testing::kSize;
using ::testing::Not;

using HdfsPermission = testing::AwsTest;

TEST_F(HdfsPermission, ARefusalIsToldAsOne) {
  auto cluster = HdfsCluster::start_guarded();
  ASSERT_TRUE(cluster) << HdfsCluster::kHowToGetIt;
  cluster->put("secret/key", content(0, kSize));
  set("HADOOP_USER_NAME", "alice");
  testing::StoreReader reader("");
  reader.config.scheme = "hdfs";
  reader.config.endpoint = cluster->rpc_endpoint();
  reader.config.options = {};
  EXPECT_EQ(reader.read(0, kSize, "secret/key"), content(0, kSize));
  cluster->set_mode("secret", "700");
  const Result<std::string> read = reader.read(0, kSize, "secret/key");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(read.error().to_string(), HasSubstr("Permission denied: user=alice"));
  EXPECT_THAT(read.error().to_string(), Not(HasSubstr("org.apache.hadoop")));
  ListRequest below;
  below.prefix = "secret/";
  auto list = reader.source().list(Context::background(), below);
  const Result<ListPage> listed = reader.executor.block_on(std::move(list));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace leat
