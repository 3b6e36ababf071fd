// SPDX-License-Identifier: Apache-2.0
// Tests several name nodes of one HDFS, one of which does not answer.
#include <gmock/gmock.h>

#include "source/aws_test.h"
#include "source/hdfs_test.h"

namespace leat {
namespace {

using testing::content;
using testing::HdfsCluster;
using testing::kSize;
using testing::ServerProcess;

using HdfsNameService = testing::AwsTest;

TEST_F(HdfsNameService, IsAskedWhereItsConfigurationSays) {
  auto cluster = HdfsCluster::start();
  ASSERT_TRUE(cluster) << HdfsCluster::kHowToGetIt;
  cluster->put("ha/key", content(0, kSize));
  const std::string real = cluster->rpc_endpoint().substr(7);
  const std::string silent = fmt::format("127.0.0.1:{}", ServerProcess::free_port());
  auto property = [](const std::string& name, const std::string& value) {
    return fmt::format("<property><name>{}</name><value>{}</value></property>\n", name, value);
  };
  std::ofstream(folder_ / "hdfs-site.xml")
      << "<configuration>\n"
      << property("dfs.nameservices", "data") << property("dfs.ha.namenodes.data", "one, two")
      << property("dfs.namenode.rpc-address.data.one", silent)
      << property("dfs.namenode.rpc-address.data.two", real) << "</configuration>\n";
  set("HADOOP_CONF_DIR", folder_);
  for (const std::string& asked :
       {std::string("hdfs://data"), fmt::format("hdfs://{},{}", silent, real)}) {
    testing::StoreReader reader("");
    reader.config.scheme = "hdfs";
    reader.config.endpoint = asked;
    reader.config.options = {};
    EXPECT_EQ(reader.read(0, kSize, "ha/key"), content(0, kSize)) << asked;
  }
}

}  // namespace
}  // namespace leat
