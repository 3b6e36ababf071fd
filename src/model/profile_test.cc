// SPDX-License-Identifier: Apache-2.0
#include "model/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/folder_settings.h"
#include "model/policy_settings.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

TEST(Profile, SaysOnlyWhatOptionsCanSay) {
  for (const Profile& profile : profiles()) {
    PolicySettings policy;
    for (const auto& [option, value] : profile.options) {
      const bool folder = std::ranges::find(folder_options(), option) != folder_options().end();
      EXPECT_TRUE(folder || check_policy_option(option, false)) << profile.name << ": " << option;
      if (!folder) policy.mount[option] = value;
    }
    EXPECT_TRUE(make_folder_settings(profile.options)) << profile.name;
    EXPECT_TRUE(make_policy("/m", policy, {})) << profile.name;
  }
}

TEST(Profile, GivesWayToWhatIsGiven) {
  const Options all =
      with_profile({{"folder_profile", "interactive"}, {"freshness", "immutable"}, {"x", "y"}})
          .value();
  EXPECT_EQ(all.at("freshness"), "immutable");
  EXPECT_EQ(all.at("x"), "y");
  EXPECT_EQ(
      make_folder_settings(all),
      (FolderSettings{.read_ahead = 128 * kKiB, .look_ahead = 8 * kMiB, .next_files = false}));
  EXPECT_EQ(with_profile({{"x", "y"}}), (Options{{"x", "y"}}));
  const auto wrong = with_profile({{"folder_profile", "fast"}});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("training, serving, interactive, small-files"));
}

TEST(FolderSettings, AreAsSaidOrRefused) {
  EXPECT_EQ(make_folder_settings({}), FolderSettings());
  EXPECT_EQ(make_folder_settings({{"no_open", "true"}, {"look_ahead", "0"}, {"quota", "junk"}}),
            (FolderSettings{.no_open = true, .look_ahead = 0}));
  for (const Options& wrong : {Options{{"no_open", "yes"}},
                               {{"next_files", ""}},
                               {{"read_ahead", "1KiB"}},
                               {{"read_ahead", "1GiB"}},
                               {{"look_ahead", "-1"}},
                               {{"look_ahead", "1PiB"}}}) {
    const auto refused = make_folder_settings(wrong);
    ASSERT_FALSE(refused) << wrong.begin()->first;
    EXPECT_THAT(refused.error().to_string(), HasSubstr(wrong.begin()->first));
  }
}

}  // namespace
}  // namespace leat
