// SPDX-License-Identifier: Apache-2.0
// Each kernel feature can be disabled, and so can all features newer than 5.15. The mount behaves
// the same without it, but slower. (5.15 itself is not run here.)
#include "frontends/fuse/feature_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "frontends/fuse/mounted_test.h"

namespace leat {
namespace {

using testing::eventually;
using ::testing::HasSubstr;
using testing::Mounted;
using testing::names_in;
using testing::pattern;

constexpr Freshness kImmutable{.mode = Freshness::Mode::kImmutable};
constexpr Freshness kHour{.mode = Freshness::Mode::kMaxAge, .max_age = std::chrono::hours(1)};

TEST(FeatureSet, IsReadByNames) {
  EXPECT_EQ(FuseFeatureSet::parse(""), FuseFeatureSet());
  const FuseFeatureSet two = FuseFeatureSet::parse("resend,readdirplus").value();
  EXPECT_TRUE(two.contains(FuseFeature::kResend));
  EXPECT_TRUE(two.contains(FuseFeature::kReaddirplus));
  EXPECT_FALSE(two.contains(FuseFeature::kPassthrough));
  const FuseFeatureSet newer = FuseFeatureSet::parse("after-5.15").value();
  for (const FuseFeatureName& one : fuse_features()) {
    const bool old =
        one.since.starts_with("2.") || one.since.starts_with("3.") || one.since.starts_with("4.");
    EXPECT_EQ(newer.contains(one.feature), !old) << one.name;
  }
  const Result<FuseFeatureSet> wrong = FuseFeatureSet::parse("passthru");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("'passthru'"));
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("passthrough, resend"));
}

std::vector<std::string> one_by_one() {
  std::vector<std::string> words = {"after-5.15"};
  std::string all;
  for (const FuseFeatureName& one : fuse_features()) {
    words.emplace_back(one.name);
    all += std::string(one.name) + ",";
  }
  words.push_back(all);
  return words;
}

class DisabledFeatures : public ::testing::TestWithParam<std::string> {
 protected:
  FuseServerOptions options() const {
    return {.disabled_features = FuseFeatureSet::parse(GetParam()).value()};
  }
  bool is_disabled(FuseFeature feature) const {
    return options().disabled_features.contains(feature);
  }
};

TEST_P(DisabledFeatures, FilesAndNamesAreTheSame) {
  Mounted at({.freshness = kImmutable}, options());
  const std::string large = pattern(5 * kMiB + 12345, 1);
  at.rig.source->put("large", large);
  std::set<std::string> expected = {".", ".."};
  for (int i = 0; i < 1000; ++i) {
    const std::string name = fmt::format("sample {:04}", i);
    at.rig.source->put("d/" + name, fmt::format("content {}", i));
    expected.insert(name);
  }
  EXPECT_EQ(names_in(at.path("d")), expected);
  EXPECT_EQ(names_in(at.path("d")), expected);
  for (int i = 0; i < 1000; i += 37) {
    EXPECT_EQ(at.content(fmt::format("d/sample {:04}", i)), fmt::format("content {}", i));
  }
  EXPECT_EQ(at.content("large"), large);
  const NodeId node = at.rig.node(kRootNode, "large");
  ASSERT_TRUE(at.rig.load(at.rig.open(node).value()->ref()));
  EXPECT_EQ(at.content("large"), large) << "complete";
  const FuseFeatures features = at.server->features();
  EXPECT_EQ(features.readdirplus, !is_disabled(FuseFeature::kReaddirplus));
  EXPECT_EQ(features.parallel_directory_operations,
            !is_disabled(FuseFeature::kParallelDirectories));
  EXPECT_EQ(features.request_bytes_max,
            is_disabled(FuseFeature::kLargeRequests) ? 128 * kKiB : kMiB);
  EXPECT_EQ(features.read_ahead_bytes, is_disabled(FuseFeature::kReadAhead) ? 0 : kMiB);
  if (is_disabled(FuseFeature::kPassthrough)) EXPECT_FALSE(features.passthrough);
}

TEST_P(DisabledFeatures, ChangesAreSeen) {
  Mounted at({.freshness = kHour}, options());
  at.rig.source->put("d/x", "before");
  at.rig.source->put("d/gone", "here");
  EXPECT_EQ(at.content("d/x"), "before");
  EXPECT_EQ(at.content("d/gone"), "here");
  EXPECT_EQ(names_in(at.path("d")).size(), 4u);
  at.rig.source->put("d/x", "after, and longer");
  at.rig.source->put("d/new", "new");
  at.rig.source->remove("d/gone");
  ASSERT_TRUE(at.rig.executor.block_on(at.rig.catalog->refresh(Context::background(), "/data/d")));
  EXPECT_TRUE(eventually([&] {
    struct stat info{};
    return ::stat(at.path("d/x").c_str(), &info) == 0 && info.st_size == 17;
  }));
  EXPECT_EQ(at.content("d/x"), "after, and longer");
  EXPECT_EQ(at.content("d/new"), "new");
  EXPECT_TRUE(eventually([&] { return ::access(at.path("d/gone").c_str(), F_OK) != 0; }));
  EXPECT_EQ(names_in(at.path("d")), (std::set<std::string>{".", "..", "x", "new"}));
}

TEST_P(DisabledFeatures, SurvivalIsReportedOnlyIfPossible) {
  std::unique_ptr<MemfdRecordTable> records = MemfdRecordTable::create("leat-test").value();
  FuseServerOptions recorded = options();
  recorded.records = records.get();
  Mounted at({.freshness = kImmutable, .records = records.get()}, recorded);
  at.rig.source->put("x", "content");
  EXPECT_EQ(at.content("x"), "content");
  if (is_disabled(FuseFeature::kResend)) EXPECT_FALSE(at.server->features().survives);
  EXPECT_EQ(at.server->connection() >= 0, at.server->features().survives);
}

INSTANTIATE_TEST_SUITE_P(Features, DisabledFeatures, ::testing::ValuesIn(one_by_one()),
                         [](const auto& param) {
                           const std::string& word = param.param;
                           std::string name = word.contains(',') ? "all" : word;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace leat
