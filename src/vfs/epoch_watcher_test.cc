// SPDX-License-Identifier: Apache-2.0
#include "vfs/epoch_watcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::TreeRig;

class Listener : public EpochListener {
 public:
  bool on_epoch(const std::string& path) override {
    heard.push_back(path);
    return wants_more;
  }

  std::vector<std::string> heard;
  bool wants_more = true;
};

class EpochWatcherTest : public ::testing::Test {
 protected:
  EpochWatcherTest() {
    testing::TreeRigOptions options;
    options.freshness = {.mode = Freshness::Mode::kImmutable};
    options.epochs = &listener_;
    options.threads = 1;
    rig_ = std::make_unique<TreeRig>(options);
    for (int directory = 0; directory < 20; ++directory) {
      for (int file = 0; file < 50; ++file) {
        names_.push_back(fmt::format("train/{:02}/{:03}", directory, file));
        rig_->source->put(names_.back(), "content");
      }
    }
    rig_->source->put("other/file", "content");
  }

  std::vector<std::string> shuffled() const {
    std::vector<std::string> order = names_;
    std::ranges::shuffle(order, std::mt19937_64(5));
    return order;
  }
  NodeId node(const std::string& path) {
    NodeId at = kRootNode;
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      at = rig_->node(at, path.substr(begin, end - begin));
      begin = end + 1;
    }
    return at;
  }
  void read(const std::string& path) {
    EXPECT_EQ(*rig_->read(**rig_->open(node(path)), 0, 7), "content");
  }
  void read_until_heard(const std::vector<std::string>& order) {
    for (const std::string& path : order) {
      read(path);
      if (!listener_.heard.empty()) return;
    }
  }

  Listener listener_;
  std::unique_ptr<TreeRig> rig_;
  std::vector<std::string> names_;
};

TEST_F(EpochWatcherTest, ARandomEpochIsReported) {
  read_until_heard(shuffled());
  ASSERT_EQ(listener_.heard.size(), 1u);
  EXPECT_EQ(listener_.heard.front(), "/data/train");
  EXPECT_LE(rig_->source->reads(), 45u) << "of 1,000 files, before all directories were listed";
}

TEST_F(EpochWatcherTest, ItIsReportedWhileItGoesOn) {
  const std::vector<std::string> order = shuffled();
  read_until_heard(order);
  for (int i = 0; i < 10; ++i) read(order[900 + i]);
  EXPECT_EQ(listener_.heard.size(), 1u) << "once a second";
  rig_->advance(1s);
  read("other/file");
  EXPECT_EQ(listener_.heard.size(), 1u) << "a file elsewhere";
  rig_->advance(1s);
  read(order[920]);
  EXPECT_EQ(listener_.heard.size(), 2u);
  rig_->advance(1s);
  ASSERT_TRUE(rig_->load(rig_->catalog->try_lookup("/data/" + order[930])->value().ref));
  read(order[930]);
  EXPECT_EQ(listener_.heard.size(), 3u) << "reads of cached files, too";
  listener_.wants_more = false;
  rig_->advance(1s);
  read(order[940]);
  EXPECT_EQ(listener_.heard.size(), 4u);
  rig_->advance(1s);
  read(order[950]);
  EXPECT_EQ(listener_.heard.size(), 4u) << "nothing is left to do";
}

TEST_F(EpochWatcherTest, ReadsInNameOrderAreNotReported) {
  for (const std::string& path : names_) read(path);
  EXPECT_TRUE(listener_.heard.empty());
}

TEST_F(EpochWatcherTest, LookingWithoutReadingIsNotReported) {
  for (const std::string& path : shuffled()) {
    const NodeId found = node(path);
    EXPECT_TRUE(rig_->attributes(found));
    EXPECT_TRUE(rig_->open(found));
  }
  EXPECT_TRUE(listener_.heard.empty());
}

TEST_F(EpochWatcherTest, CachedFilesAreNotReported) {
  for (const std::string& path : names_) {
    static_cast<void>(node(path));
    ASSERT_TRUE(rig_->load(rig_->catalog->try_lookup("/data/" + path)->value().ref));
  }
  for (const std::string& path : shuffled()) read(path);
  EXPECT_TRUE(listener_.heard.empty());
}

TEST_F(EpochWatcherTest, AFileReadInPiecesCountsOnce) {
  for (int i = 0; i < 100; ++i) {
    const std::shared_ptr<OpenFile> file = *rig_->open(node("other/file"));
    for (uint64_t at = 0; at < 7; ++at) EXPECT_TRUE(rig_->read(*file, at, 1));
  }
  EXPECT_TRUE(listener_.heard.empty());
}

}  // namespace
}  // namespace leat
