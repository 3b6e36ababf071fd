// SPDX-License-Identifier: Apache-2.0
// Tests that the servers of the source tests start and return the stored objects, with programs
// independent of Leat.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "source/azurite_test.h"
#include "source/fake_gcs_test.h"
#include "source/fake_hub_test.h"
#include "source/hdfs_test.h"
#include "source/moto_test.h"
#include "source/nginx_test.h"
#include "source/sftp_test.h"

namespace leat::testing {
namespace {

// A name and bytes that a faulty server or client would change.
constexpr char kKey[] = "a dir/b+c%20d";
const std::string kContent("\0\r\n<&> \xff", 9);

TEST(Servers, AzuriteGivesBackWhatWasPut) {
  auto server = AzuriteServer::start();
  ASSERT_TRUE(server) << AzuriteServer::kHowToGetIt;
  server->put(kKey, kContent);
  EXPECT_EQ(curl({server->signed_url(kKey)}), kContent);
}

TEST(Servers, FakeGcsGivesBackWhatWasPut) {
  auto server = FakeGcsServer::start();
  ASSERT_TRUE(server) << FakeGcsServer::kHowToGetIt;
  server->put(kKey, kContent);
  EXPECT_EQ(curl({server->media_url(kKey)}), kContent);
}

TEST(Servers, TheHubGivesBackWhatWasPut) {
  auto server = FakeHub::start();
  ASSERT_TRUE(server) << FakeHub::kHowToGetIt;
  std::string large = kContent;
  while (large.size() < 1000) large += kContent;
  for (const std::string& content : {kContent, large}) {
    server->put(FakeHub::kRepo + ("/" + std::string(kKey)), content);
    const std::string path = "/resolve/main/" + percent_encoded(kKey);
    EXPECT_EQ(curl({"-L", server->endpoint() + "/datasets/" + FakeHub::kRepo + path}), content);
  }
}

TEST(Servers, HdfsGivesBackWhatWasPut) {
  auto cluster = HdfsCluster::start();
  ASSERT_TRUE(cluster) << HdfsCluster::kHowToGetIt;
  cluster->put(kKey, kContent);
  EXPECT_EQ(curl({"-L", cluster->url(kKey, "OPEN")}), kContent);
}

TEST(Servers, MotoGivesBackWhatWasPut) {
  auto server = MotoServer::start();
  ASSERT_TRUE(server) << MotoServer::kHowToGetIt;
  server->put(kKey, kContent);
  EXPECT_EQ(server->ask(kKey), kContent);
}

TEST(Servers, NginxGivesBackWhatWasPut) {
  auto server = NginxServer::start();
  ASSERT_TRUE(server) << NginxServer::kHowToGetIt;
  server->put(kKey, kContent);
  for (const std::string& endpoint : {server->endpoint(), server->json_endpoint()}) {
    EXPECT_EQ(curl({endpoint + "/" + percent_encoded(kKey)}), kContent);
  }
  EXPECT_TRUE(curl({server->endpoint() + "/a%20dir/"}).contains("<a href=\"b%2Bc%2520d\">"));
  EXPECT_TRUE(curl({server->json_endpoint() + "/a%20dir/"}).contains("\"name\":\"b+c%20d\""));
}

TEST(Servers, SftpGivesBackWhatWasPut) {
  auto server = SftpServer::start();
  ASSERT_TRUE(server) << SftpServer::kHowToGetIt;
  server->put(kKey, kContent);
  std::string batch = server->folder().parent_path() / "batch";
  std::string fetched = server->folder().parent_path() / "fetched";
  std::ofstream(batch) << "get \"" << kKey << "\" " << fetched << "\n";
  Command command = server->client_options();
  command.insert(command.begin(), {"sftp", "-q", "-b", batch});
  command.push_back("127.0.0.1");
  ASSERT_EQ(run_program(command).status, 0);
  std::ifstream file(fetched, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), kContent);
}

}  // namespace
}  // namespace leat::testing
