// SPDX-License-Identifier: Apache-2.0
// The servers that the sources are tested against come up, and give back what was put into them:
// asked by programs that know nothing of Leat.
#include <gtest/gtest.h>

#include <string>

#include "source/azurite_test.h"
#include "source/fake_gcs_test.h"

namespace leat::testing {
namespace {

// A name and bytes that a careless server or client would change.
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

}  // namespace
}  // namespace leat::testing
