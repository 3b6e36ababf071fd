// SPDX-License-Identifier: Apache-2.0
// Tests hf:// beyond the contract: revisions, which hosts get the token, where bytes come from.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/aws_test.h"
#include "source/fake_hub_test.h"
#include "source/source.h"

namespace leat {
namespace {

using testing::content;
using testing::FakeHub;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StoreReader;

class HubTest : public testing::AwsTest {
 protected:
  void SetUp() override {
    hub_ = FakeHub::start();
    ASSERT_TRUE(hub_) << FakeHub::kHowToGetIt;
    set("HF_HOME", folder_);
    reader_.config = hub_->config();
  }
  Result<SourceObject> stat(const std::string& key) {
    return reader_.executor.block_on(reader_.source().stat(Context::background(), {key, {}}));
  }
  // Returns the lines of the hub's log that contain a text.
  size_t asked(const std::string& text) {
    std::istringstream log(hub_->log());
    size_t count = 0;
    for (std::string line; std::getline(log, line);) count += line.contains(text);
    return count;
  }
  std::string write_token(const std::string& token) {
    std::ofstream(folder_ / "new") << token << "\n";
    std::filesystem::rename(folder_ / "new", folder_ / "token");
    return folder_ / "token";
  }

  static constexpr char kLarge[] = "some/dataset/large";  // is stored on another host
  static constexpr uint64_t kLargeSize = 1000;
  std::shared_ptr<FakeHub> hub_;
};

TEST_F(HubTest, TheTokenStaysWithTheHub) {
  hub_->put(kLarge, content(0, kLargeSize));
  hub_->put("some/dataset/small", content(0, 10));
  reader_.config.options.erase("anonymous");
  write_token(FakeHub::kToken);
  EXPECT_EQ(reader_.read(100, 500, kLarge), content(100, 500));
  EXPECT_EQ(reader_.read(2, 5, "some/dataset/small"), content(2, 5));
  EXPECT_EQ(asked("CDN "), 1u);
  EXPECT_EQ(asked("Signature=s1gned -"), 1u);
  EXPECT_GE(asked("Bearer hf_t0ken"), 3u);
  EXPECT_THAT(hub_->log(), Not(HasSubstr("s1gned Bearer")));
}

TEST_F(HubTest, LocationIsCachedUntilItIsDenied) {
  hub_->put(kLarge, content(0, kLargeSize));
  reader_.config.options["commit_lasts_ms"] = "3600000";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(reader_.read(0, 500, kLarge), content(0, 500));
  EXPECT_EQ(asked("HEAD "), 1u);
  EXPECT_EQ(asked("CDN "), 5u);
  EXPECT_EQ(asked("/revision/"), 1u);
  hub_->forget_locations();
  EXPECT_EQ(reader_.read(0, 500, kLarge), content(0, 500));
  EXPECT_EQ(asked("HEAD "), 2u);
}

TEST_F(HubTest, ABranchStaysAtItsCommitForAWhile) {
  hub_->put(kLarge, "before" + content(0, kLargeSize));
  reader_.config.options["commit_lasts_ms"] = "3600000";
  auto before = stat(kLarge);
  ASSERT_TRUE(before) << before.error().to_string();
  hub_->put(kLarge, "later!" + content(0, kLargeSize));
  // The version that was found is the one that is read.
  EXPECT_EQ(reader_.read(0, 6, kLarge, before->version), "before");
  StoreReader other("");
  other.config = hub_->config();
  EXPECT_EQ(other.read(0, 6, kLarge), "later!");
  auto changed = other.read(0, 6, kLarge, before->version);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), StatusCode::kVersionChanged);
}

TEST_F(HubTest, ARevisionIsPartOfTheName) {
  hub_->put(kLarge, content(0, kLargeSize));
  EXPECT_TRUE(stat("some/dataset@main/large"));
  EXPECT_TRUE(stat("some/dataset@refs/pr/1/large"));
  EXPECT_TRUE(stat("some/dataset@refs%2Fpr%2F1/large"));
  EXPECT_EQ(reader_.read(0, 9, "some/dataset@refs/pr/1/large"), content(0, 9));
  auto none = stat("some/dataset@gone/large");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), StatusCode::kNotFound);
  EXPECT_THAT(none.error().to_string(), HasSubstr("Invalid rev id"));
}

TEST_F(HubTest, ARepositoryThatWasRenamedIsFound) {
  hub_->put(kLarge, content(0, kLargeSize));
  EXPECT_TRUE(stat("old/name/large"));
  EXPECT_EQ(reader_.read(0, 9, "old/name/large"), content(0, 9));
}

TEST_F(HubTest, ModelsHaveNoKindInTheirName) {
  auto url =
      StoreUrl::parse("hf://owner/model/weights?anonymous=true&endpoint=" + hub_->endpoint());
  testing::curl({"-X", "PUT", "-d", "bytes", hub_->endpoint() + "/owner/model/weights/a.bin"});
  SourcePtr source = open_source(url.value()).value();
  auto found =
      reader_.executor.block_on(source->stat(Context::background(), {"model/weights/a.bin", {}}));
  EXPECT_TRUE(found) << found.error().to_string();
}

TEST_F(HubTest, OthersAreAskedForATokenThatIsReadAgain) {
  hub_->put("some/private/large", content(0, kLargeSize));
  reader_.config.options.erase("anonymous");
  reader_.config.options["credentials"] = write_token("hf_HUSH");
  auto refused = reader_.read(0, 9, "some/private/large");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("Invalid credentials"));
  EXPECT_THAT(refused.error().to_string(), Not(HasSubstr("HUSH")));
  write_token(FakeHub::kToken);
  bool reads = false;
  for (int i = 0; i < 400 && !reads; ++i, poll(nullptr, 0, 50)) {
    reads = reader_.read(0, 9, "some/private/large").has_value();
  }
  EXPECT_TRUE(reads);
}

TEST_F(HubTest, AHubItselfIsNotListed) {
  auto listed = reader_.executor.block_on(reader_.source().list(Context::background(), {}));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(listed.error().to_string(), HasSubstr("name a repository"));
}

TEST_F(HubTest, AUrlThatLastsLongerThanAnyClockIsUsed) {
  hub_->put("some/dataset/eternal", content(0, kLargeSize));
  EXPECT_EQ(reader_.read(0, 16, "some/dataset/eternal"), content(0, 16));
  EXPECT_EQ(reader_.read(16, 16, "some/dataset/eternal"), content(16, 16));
}

TEST_F(HubTest, AListingWithoutAnEndEnds) {
  hub_->put("some/dataset/endless/file", content(0, 10));
  auto page = reader_.executor.block_on(
      reader_.source().list(Context::background(), {"some/dataset/endless/", false, ""}));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(page.error().to_string(), HasSubstr("without an end"));
}

// A FIFO without a writer blocks its readers like a file system that hangs.
TEST_F(HubTest, ATokenThatCannotBeReadNowStopsNobody) {
  hub_->put(kLarge, content(0, kLargeSize));
  reader_.config.options.erase("anonymous");
  const std::string fifo = folder_ / "hangs";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  reader_.config.options["credentials"] = fifo;
  for (int i = 0; i < 3; ++i) {
    auto got = reader_.read(0, 16, kLarge);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(got.error().to_string(), HasSubstr("takes too long"));
  }
  StoreReader other("");
  other.config = hub_->config();
  EXPECT_EQ(other.read(0, 16, kLarge), content(0, 16));
  // Releases a reader that is still blocked.
  close(open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace
}  // namespace leat
