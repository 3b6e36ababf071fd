// SPDX-License-Identifier: Apache-2.0
#include "model/policy_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

ParsedPolicy parsed(const PolicySettings& settings, const Policy& defaults = {}) {
  return parse_policy("/m", settings, defaults).value();
}

TEST(PolicySettings, WithoutAnyAllIsAsTheDefaultsSay) {
  Policy defaults;
  defaults.uid = 7;
  defaults.umask = 077;
  const ParsedPolicy policy = parsed({}, defaults);
  EXPECT_EQ(policy.policy.uid, 7u);
  EXPECT_EQ(policy.policy.umask, 077u);
  EXPECT_EQ(policy.policy.freshness, Freshness{});
  EXPECT_EQ(policy.policy.pool, pool_of_mount("/m"));
  ASSERT_EQ(policy.pools.size(), 1u);
  EXPECT_EQ(policy.pools.at(pool_of_mount("/m")), PoolPolicy{.name = "/m"});
}

TEST(PolicySettings, OfAMountAreRead) {
  const ParsedPolicy policy = parsed({.mount = {{"freshness", "immutable"},
                                                {"negative_ttl", "1s"},
                                                {"cache", "never"},
                                                {"quota", "1GiB"},
                                                {"uid", "12"},
                                                {"gid", "13"},
                                                {"umask", "027"},
                                                {"isolated", "true"},
                                                {"region", "of the store"}},
                                      .paths = {}});
  EXPECT_EQ(policy.policy.freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_EQ(policy.policy.freshness.negative_ttl, 1s);
  EXPECT_EQ(policy.policy.cache, CacheMode::kNever);
  EXPECT_EQ(policy.policy.uid, 12u);
  EXPECT_EQ(policy.policy.gid, 13u);
  EXPECT_EQ(policy.policy.umask, 027u);
  EXPECT_TRUE(policy.policy.isolated);
  EXPECT_EQ(policy.pools.at(policy.policy.pool).quota_bytes, uint64_t{1} << 30);
}

TEST(PolicySettings, OfPathsGoOnFromWhatIsAboveThem) {
  const ParsedPolicy all = parsed({.mount = {{"freshness", "max-age=10s"}, {"negative_ttl", "1s"}},
                                   .paths = {{"a", {{"freshness", "immutable"}}},
                                             {"a/b", {{"cache", "never"}}},
                                             {"a/b/file", {{"freshness", "validate"}}}}});
  const Policy& policy = all.policy;
  EXPECT_EQ(policy.of("").freshness.max_age, 10s);
  EXPECT_EQ(policy.of("ab").freshness.max_age, 10s) << "begins like a, is not in it";
  EXPECT_EQ(policy.of("a").freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_EQ(policy.of("a/x/y").freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_EQ(policy.of("a").freshness.negative_ttl, 1s);
  EXPECT_EQ(policy.of("a/x").cache, CacheMode::kAuto);
  EXPECT_EQ(policy.of("a/b/c").cache, CacheMode::kNever);
  EXPECT_EQ(policy.of("a/b/c").freshness.mode, Freshness::Mode::kImmutable);
  const DirectoryPolicy b = policy.of_directory("a/b");
  EXPECT_EQ(b.freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_EQ(b.of_file("file").freshness.mode, Freshness::Mode::kValidate);
  EXPECT_EQ(b.of_file("other").freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_EQ(policy.of_directory("").of_file("a").freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_TRUE(policy.of_directory("a/b/c").file_overrides.empty());
  EXPECT_TRUE(b.same_files(policy.of_directory("a/b/c")));
  EXPECT_FALSE(b.same_files(policy.of_directory("a")));
}

TEST(PolicySettings, APathWithAnOptionOfPoolsHasAPoolOfItsOwn) {
  const ParsedPolicy all = parsed({.mount = {{"quota", "1GiB"}, {"priority", "low"}},
                                   .paths = {{"a", {{"pin", "true"}}},
                                             {"a/b", {{"freshness", "immutable"}}},
                                             {"c", {{"cache", "never"}}}}});
  const PoolId pool = pool_of_path("/m/a");
  EXPECT_NE(pool, pool_of_mount("/m/a"));
  EXPECT_EQ(all.policy.of("a/x").pool, pool);
  EXPECT_EQ(all.policy.of("a/b").pool, pool);
  EXPECT_EQ(all.policy.of("c").pool, pool_of_mount("/m"));
  ASSERT_EQ(all.pools.size(), 2u);
  EXPECT_EQ(all.pools.at(pool),
            (PoolPolicy{.name = "/m/a", .priority = Priority::kLow, .pinned = true}))
      << "its bytes are not in the mount's quota";
}

TEST(PolicySettings, WhatIsWrongIsNamed) {
  auto why = [](PolicySettings settings) {
    auto policy = parse_policy("/m", settings, {});
    return policy ? std::string() : policy.error().to_string();
  };
  using Values = PolicySettings::Values;
  const std::pair<const char*, const char*> of_mounts[] = {
      {"freshness", "now"},  {"negative_ttl", "5"}, {"cache", "yes"},      {"quota", "1"},
      {"uid", "4294967295"}, {"gid", "-1"},         {"umask", "1000"},     {"umask", "8"},
      {"isolated", "1"},     {"pin", ""},           {"priority", "higher"}};
  for (const auto& [option, value] : of_mounts) {
    EXPECT_THAT(why({.mount = {{option, value}}, .paths = {}}), HasSubstr(value)) << option;
  }
  EXPECT_THAT(why({.mount = {}, .paths = {{"a", Values{{"uid", "1"}}}}}),
              HasSubstr("/m/a: uid is an option of whole mounts"));
  EXPECT_THAT(why({.mount = {}, .paths = {{"a", Values{{"endpoint", "x"}}}}}),
              HasSubstr("no option 'endpoint'"));
  EXPECT_THAT(why({.mount = {}, .paths = {{"a", Values{{"freshness", "snapshot"}}}}}),
              HasSubstr("snapshot"));
  for (const char* path : {"/a", "a/", "a//b", "a/../b", ""}) {
    EXPECT_NE(why({.mount = {}, .paths = {{path, Values{{"pin", "true"}}}}}), "") << path;
  }
}

}  // namespace
}  // namespace leat
