// SPDX-License-Identifier: Apache-2.0
#include "auth/cluster_secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "base/id128.h"

namespace leat {
namespace {

std::string line_of(char filling, size_t size = kSecretBytesMin) {
  return base64url(std::string(size, filling)) + "\n";
}

std::string hex_of(const Secret& secret) {
  return to_hex(secret.sign("x"));
}

class SecretFileTest : public ::testing::Test {
 protected:
  ~SecretFileTest() override { std::filesystem::remove(path_); }

  void write(const std::string& text, mode_t mode = 0600) {
    const std::string beside = path_ + ".new";
    std::ofstream(beside) << text;
    ASSERT_EQ(chmod(beside.c_str(), mode), 0);
    std::filesystem::rename(beside, path_);
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("leat-secret-" + Id128::random().to_hex());
};

TEST(SecretSet, TheFirstSignsAndAllAreThere) {
  auto set = SecretSet::parse("# ours\n\n" + line_of('a') + "  " + line_of('b', 64), "s");
  ASSERT_TRUE(set) << set.error().to_string();
  ASSERT_EQ(set->secrets.size(), 2u);
  EXPECT_EQ(hex_of(set->signing()), hex_of(Secret(std::string(32, 'a'))));
  EXPECT_EQ(hex_of(set->secrets[1]), hex_of(Secret(std::string(64, 'b'))));
}

TEST(SecretSet, ErrorNamesTheLineButNotItsContent) {
  auto reason = [](const std::string& text) {
    auto set = SecretSet::parse(text, "/etc/leat/secret");
    return set ? "" : set.error().to_string();
  };
  EXPECT_NE(reason("").find("no secret in it"), std::string::npos);
  EXPECT_NE(reason("# none\n").find("no secret in it"), std::string::npos);
  const std::string broken = reason(line_of('a') + "hunter2!\n");
  EXPECT_NE(broken.find("/etc/leat/secret: line 2"), std::string::npos) << broken;
  EXPECT_EQ(broken.find("hunter2"), std::string::npos);
  EXPECT_NE(reason(line_of('a', 31)).find("has 31 bytes"), std::string::npos);
  std::string many;
  for (size_t i = 0; i <= kSecretsMax; ++i) many += line_of('a');
  EXPECT_NE(reason(many).find("more than 16"), std::string::npos);
}

TEST(SecretSet, ANewOneIsOne) {
  auto set = SecretSet::parse(make_secret(), "s");
  ASSERT_TRUE(set) << set.error().to_string();
  EXPECT_EQ(set->secrets.size(), 1u);
  EXPECT_NE(make_secret(), make_secret());
}

TEST_F(SecretFileTest, IsReadAgainWhenItIsAnotherOne) {
  write(line_of('a'));
  auto file = SecretFile::open(path_);
  ASSERT_TRUE(file) << file.error().to_string();
  const SecretSetPtr before = (*file)->current();
  EXPECT_EQ((*file)->reload(), false);
  write(line_of('b') + line_of('a'));
  EXPECT_EQ((*file)->reload(), true);
  EXPECT_EQ((*file)->current()->secrets.size(), 2u);
  EXPECT_EQ(before->secrets.size(), 1u);
}

TEST_F(SecretFileTest, KeepsWhatItHadWhenTheNextIsNone) {
  write(line_of('a'));
  auto file = SecretFile::open(path_);
  ASSERT_TRUE(file);
  write("rubbish!\n");
  EXPECT_EQ((*file)->reload().error().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove(path_);
  EXPECT_EQ((*file)->reload().error().code(), StatusCode::kNotFound);
  EXPECT_EQ((*file)->current()->secrets.size(), 1u);
  write(line_of('b', 64));  // another size, because time and inode may be the same as for 'a'
  EXPECT_EQ((*file)->reload(), true);
}

TEST_F(SecretFileTest, FileReadableByOthersIsRejected) {
  for (const mode_t mode : {0640, 0604, 0620}) {
    write(line_of('a'), mode);
    auto file = SecretFile::open(path_);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code(), StatusCode::kPermissionDenied);
    EXPECT_NE(file.error().to_string().find("chmod 600 " + path_), std::string::npos);
  }
  EXPECT_EQ(SecretFile::open(path_ + "-not").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(SecretFile::open("/tmp").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SecretFile::open("/dev/zero").error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace leat
