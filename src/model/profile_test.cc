// SPDX-License-Identifier: Apache-2.0
#include "model/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/mount_options.h"
#include "model/policy_settings.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

TEST(Profile, SaysOnlyWhatOptionsCanSay) {
  for (const Profile& profile : profiles()) {
    PolicySettings policy;
    for (const auto& [option, value] : profile.options) {
      const bool folder =
          std::ranges::find(mount_option_names(), option) != mount_option_names().end();
      EXPECT_TRUE(folder || check_policy_option(option, false)) << profile.name << ": " << option;
      if (!folder) policy.mount[option] = value;
    }
    EXPECT_TRUE(parse_mount_options(profile.options)) << profile.name;
    EXPECT_TRUE(parse_policy("/m", policy, {})) << profile.name;
  }
}

TEST(Profile, GivesWayToWhatIsGiven) {
  const Options all =
      with_profile({{"folder_profile", "interactive"}, {"freshness", "immutable"}, {"x", "y"}})
          .value();
  EXPECT_EQ(all.at("freshness"), "immutable");
  EXPECT_EQ(all.at("x"), "y");
  EXPECT_EQ(parse_mount_options(all), (MountOptions{.kernel_readahead = 128 * kKiB,
                                                    .prefetch_window = 8 * kMiB,
                                                    .prefetch_next_files = false,
                                                    .load = MountLoad::kNever}));
  EXPECT_EQ(with_profile({{"x", "y"}}), (Options{{"x", "y"}}));
  const auto wrong = with_profile({{"folder_profile", "fast"}});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("training, serving, interactive, small-files"));
}

TEST(MountOptions, ParseOrAreRejected) {
  EXPECT_EQ(parse_mount_options({}), MountOptions());
  EXPECT_EQ(parse_mount_options({{"no_open", "true"}, {"prefetch_window", "0"}, {"quota", "junk"}}),
            (MountOptions{.no_open = true, .prefetch_window = 0}));
  for (const Options& wrong : {Options{{"no_open", "yes"}},
                               {{"prefetch_next_files", ""}},
                               {{"kernel_readahead", "1KiB"}},
                               {{"kernel_readahead", "1GiB"}},
                               {{"prefetch_window", "-1"}},
                               {{"prefetch_window", "1PiB"}}}) {
    const auto refused = parse_mount_options(wrong);
    ASSERT_FALSE(refused) << wrong.begin()->first;
    EXPECT_THAT(refused.error().to_string(), HasSubstr(wrong.begin()->first));
  }
}

}  // namespace
}  // namespace leat
