// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/fstab/fstab_mount.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FstabMount parsed(const std::vector<const char*>& words) {
  Result<FstabMount> mount = parse_fstab_mount(words);
  EXPECT_TRUE(mount) << mount.error().to_string();
  return mount.value_or(FstabMount{});
}

Status refused(const std::vector<const char*>& words) {
  Result<FstabMount> mount = parse_fstab_mount(words);
  EXPECT_FALSE(mount);
  return mount ? Status(StatusCode::kInternal, "taken") : mount.error();
}

TEST(FstabMount, IsTakenByItsName) {
  EXPECT_TRUE(is_fstab_mount("/sbin/mount.leat"));
  EXPECT_TRUE(is_fstab_mount("mount.fuse.leat"));
  EXPECT_FALSE(is_fstab_mount("/usr/bin/leat"));
  EXPECT_FALSE(is_fstab_mount("/mount.leat/leat"));
  EXPECT_FALSE(is_fstab_mount(nullptr));
}

TEST(FstabMount, ALineOfFstabIsACommand) {
  const FstabMount mount =
      parsed({"s3://my-bucket/train", "/mnt/train", "-o",
              "ro,allow_other,_netdev,cache_size=100GiB,freshness=immutable,profile=training,"
              "region=us-east-1"});
  EXPECT_THAT(mount.words,
              ElementsAre("leat", "mount", "s3://my-bucket/train", "/mnt/train", "--read-only",
                          "--allow-other", "--cache-size=100GiB", "--freshness=immutable",
                          "--profile=training", "--option=region=us-east-1"));
  EXPECT_EQ(mount.directory, "/mnt/train");
  EXPECT_FALSE(mount.fake);
  EXPECT_FALSE(mount.verbose);
  EXPECT_FALSE(mount.no_exec);
}

TEST(FstabMount, OptionsOfMountAndSystemdAreIgnored) {
  const FstabMount mount = parsed(
      {"/data", "/mnt", "-o",
       "rw,defaults,auto,noauto,nofail,user,users,user=me,nosuid,nodev,exec,noatime,relatime,"
       "x-systemd.automount,x-systemd.requires=leat.service,X-mount.mkdir,comment=mine,_netdev"});
  EXPECT_THAT(mount.words, ElementsAre("leat", "mount", "/data", "/mnt"));
}

TEST(FstabMount, FlagsStandAnywhereAndTogether) {
  const FstabMount mount =
      parsed({"-fv", "/data", "-n", "-t", "leat", "/mnt", "-N", "/proc/1/ns/mnt", "-ouid=7"});
  EXPECT_TRUE(mount.fake);
  EXPECT_TRUE(mount.verbose);
  EXPECT_THAT(mount.words, ElementsAre("leat", "mount", "/data", "/mnt", "--uid=7"));
}

TEST(FstabMount, QuotesHoldCommasTogether) {
  EXPECT_THAT(
      parsed({"/data", "/mnt", "-o", "cache_dir=\"/a,/b=2TiB\",pin=true"}).words,
      ElementsAre("leat", "mount", "/data", "/mnt", "--cache-dir=/a,/b=2TiB", "--option=pin=true"));
}

TEST(FstabMount, OptionsOfPathsMayComeSeveralTimes) {
  EXPECT_THAT(parsed({"/data", "/mnt", "-o", "path_option=a:pin=true,path-option=b:ttl=1d"}).words,
              ElementsAre("leat", "mount", "/data", "/mnt", "--path-option=a:pin=true",
                          "--path-option=b:ttl=1d"));
}

TEST(FstabMount, EnvironmentFileIsNoStoreOption) {
  const FstabMount mount = parsed({"s3://b", "/mnt", "-o", "env_file=/etc/leat/leat.env,noexec"});
  EXPECT_EQ(mount.environment_file, "/etc/leat/leat.env");
  EXPECT_TRUE(mount.no_exec);
  EXPECT_THAT(mount.words, ElementsAre("leat", "mount", "s3://b", "/mnt"));
}

TEST(FstabMount, UnknownWordsAreRefusedUnlessSloppy) {
  EXPECT_THAT(refused({"/data", "/mnt", "-o", "readonly"}).message(), HasSubstr("'readonly'"));
  EXPECT_THAT(parsed({"/data", "/mnt", "-s", "-o", "readonly,ro"}).words,
              ElementsAre("leat", "mount", "/data", "/mnt", "--read-only"));
  EXPECT_THAT(refused({"/data", "/mnt", "-x"}).message(), HasSubstr("-x"));
  EXPECT_THAT(refused({"/data", "/mnt", "-o"}).message(), HasSubstr("-o needs a value"));
}

TEST(FstabMount, ARemountIsRefusedWithWhatDoesIt) {
  const Status status = refused({"/data", "/mnt/train", "-o", "remount,ro"});
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("leat mount set /mnt/train"));
}

TEST(FstabMount, TakesASourceAndADirectory) {
  EXPECT_THAT(refused({"/data"}).message(), HasSubstr("usage"));
  EXPECT_THAT(refused({}).message(), HasSubstr("usage"));
  EXPECT_THAT(refused({"/data", "/mnt", "/more"}).message(), HasSubstr("usage"));
}

}  // namespace
}  // namespace leat
