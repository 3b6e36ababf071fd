// SPDX-License-Identifier: Apache-2.0
#include "worker/local_paths.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

StatusCode open(const LocalPaths& local, const std::string& url) {
  auto source = local.open(StoreUrl::parse(url).value());
  return source ? StatusCode() : source.error().code();
}

TEST(LocalPaths, WithoutFoldersNoFileIsServed) {
  const auto local = LocalPaths::parse("");
  ASSERT_TRUE(local);
  EXPECT_EQ(open(*local, "file:///srv/data"), StatusCode::kPermissionDenied);
  EXPECT_EQ(open(*local, "/srv/data"), StatusCode::kPermissionDenied);
  EXPECT_EQ(open(*local, "https://example.org/data/"), StatusCode());
  auto refused = local->open(StoreUrl::parse("file:///etc").value());
  EXPECT_TRUE(refused.error().message().contains("worker.local_paths"));
}

TEST(LocalPaths, FoldersHoldWhatIsBelow) {
  const auto local = LocalPaths::parse("/srv/data,/mnt/");
  ASSERT_TRUE(local) << local.error().to_string();
  for (const char* url :
       {"file:///srv/data", "file:///srv/data/", "file:///srv/data/a/b", "file:///mnt/x", "/mnt"}) {
    EXPECT_EQ(open(*local, url), StatusCode()) << url;
  }
  for (const char* url : {"file:///srv", "file:///srv/database", "file:///", "file:///etc"}) {
    EXPECT_EQ(open(*local, url), StatusCode::kPermissionDenied) << url;
  }
  EXPECT_EQ(open(LocalPaths::parse("/").value(), "file:///etc"), StatusCode());
}

TEST(LocalPaths, FoldersAreAbsolutePaths) {
  for (const char* text : {"data", "/srv,data", "/srv,", ",", "/srv/../etc"}) {
    EXPECT_FALSE(LocalPaths::parse(text)) << text;
  }
}

}  // namespace
}  // namespace leat
