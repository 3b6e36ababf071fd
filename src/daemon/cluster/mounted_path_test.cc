// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/mounted_path.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

// The view that a worker sends for the token: only mounts that it may read completely.
ClusterView seen_by(const std::optional<TokenClaims>& claims, std::vector<std::string> mounts) {
  ClusterView view{.revision = 1};
  for (std::string& path : mounts) {
    if (claims && !claims->rights.may(path, Right::kRead)) continue;
    view.mounts[path] = {.path = path, .source = "s3://bucket"};
  }
  return view;
}

TokenClaims reads(std::vector<std::string> paths) {
  TokenClaims claims;
  claims.principal = "eve";
  for (std::string& path : paths) claims.rights.add(std::move(path), {Right::kRead});
  return claims;
}

std::optional<Status> why(const std::optional<TokenClaims>& claims, const std::string& path,
                          std::vector<std::string> mounts = {"/a/train", "/private"}) {
  return mount_path_error(seen_by(claims, std::move(mounts)), path, claims);
}

TEST(MountedPath, MountsAndWhatIsAboveAndBelowAreThere) {
  for (const char* path : {"/", "/a", "/a/train", "/a/train/small"}) {
    EXPECT_FALSE(why({}, path)) << path;
    EXPECT_FALSE(why(reads({"/a"}), path)) << path;
    EXPECT_FALSE(why(reads({"/a/train"}), path)) << path;
  }
  EXPECT_FALSE(why({}, "/", {})) << "a cluster without mounts, by a worker's own right";
  EXPECT_FALSE(why(reads({"/"}), "/", {}));
}

TEST(MountedPath, APathThatIsNoMountIsNamed) {
  const auto nothing = why({}, "/nosuch");
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->code(), StatusCode::kNotFound);
  EXPECT_TRUE(nothing->message().contains("/nosuch")) << nothing->message();
  EXPECT_TRUE(nothing->message().contains("/a/train, /private")) << nothing->message();
}

TEST(MountedPath, TheRightThatIsMissingIsNamed) {
  const auto refused = why(reads({"/a/train"}), "/private");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(refused->message().contains("'eve' has no right to read /private"))
      << refused->message();
  EXPECT_TRUE(refused->message().contains("it may read /a/train")) << refused->message();
}

TEST(MountedPath, ARightOnAPartOfAMountShowsNothing) {
  const auto claims = reads({"/a/train/small"});
  for (const char* path : {"/", "/a", "/a/train", "/a/train/small"}) {
    const auto nothing = why(claims, path);
    ASSERT_TRUE(nothing) << path;
    EXPECT_TRUE(nothing->message().contains("a whole mount")) << nothing->message();
    EXPECT_TRUE(nothing->message().contains("/a/train/small")) << nothing->message();
  }
}

}  // namespace
}  // namespace leat
