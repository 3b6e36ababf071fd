// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/data/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// With and without O_TMPFILE, which some file systems lack.
class AtomicFileTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("leat_new_" + Id128::random().to_hex());
    fs::create_directories(folder_);
    path_ = folder_ / std::string(255, 'n');
  }
  void TearDown() override { fs::remove_all(folder_); }

  AtomicFile make(std::string_view text) {
    Result<AtomicFile> file = AtomicFile::create(path_, GetParam());
    EXPECT_TRUE(file) << file.error().to_string();
    EXPECT_TRUE(file->write(std::as_bytes(std::span(text))));
    return std::move(*file);
  }
  std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  long names() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
  std::string path_;
};

TEST_P(AtomicFileTest, AppearsOnCommit) {
  {
    AtomicFile file = make("new");
    EXPECT_FALSE(fs::exists(path_));
    ASSERT_TRUE(file.commit(false));
    EXPECT_EQ(content(), "new");
  }
  EXPECT_EQ(names(), 1);
}

TEST_P(AtomicFileTest, ReplacesOnlyIfRequested) {
  ASSERT_TRUE(make("old").commit(false));
  EXPECT_EQ(make("new").commit(false).error().code(), StatusCode::kExists);
  EXPECT_EQ(content(), "old");
  ASSERT_TRUE(make("new").commit(true));
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(names(), 1);
}

TEST_P(AtomicFileTest, LeavesNothingWithoutCommit) {
  make("half");
  EXPECT_EQ(names(), 0);
}

TEST_P(AtomicFileTest, LeavesNothingWhenASignalEndsTheProcess) {
  auto written = [this] {
    AtomicFile file = make("half");
    raise(SIGTERM);
  };
  EXPECT_EXIT(written(), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(names(), 0);
}

INSTANTIATE_TEST_SUITE_P(Either, AtomicFileTest, testing::Bool());

}  // namespace
}  // namespace leat
