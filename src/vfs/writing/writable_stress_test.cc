// SPDX-License-Identifier: Apache-2.0
// Many threads and long sequences over a few names: nothing is lost, torn or left over.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using testing::OpenedFile;
using testing::outcome;
using testing::WritableRig;

constexpr std::array<const char*, 3> kNames{"a", "b", "c"};

// Errors that another thread's change of the name explains.
bool is_race(const std::string& result) {
  static const std::set<std::string> kExpected{"ok", "not_found", "changed", "exists"};
  return kExpected.contains(result);
}

void run(int threads, const std::function<void(int thread)>& work) {
  std::vector<std::jthread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back([i, &work] { work(i); });
}

// Every name shows what the store has, and nothing remains in memory.
void expect_settled(WritableRig& rig, uint64_t below) {
  EXPECT_EQ(outcome(rig.save_all()), "ok");
  for (const char* name : kNames) {
    const std::string stored = rig.stored(name);
    if (stored == "(none)") {
      EXPECT_EQ(rig.peek(kRootNode, name), 0u) << name;
    } else {
      EXPECT_EQ(rig.content(kRootNode, name), stored) << name;
    }
  }
  EXPECT_EQ(rig.files->nodes(), 1u);
  EXPECT_EQ(rig.below().nodes(), below);
  EXPECT_THAT(rig.keys(), ::testing::Not(::testing::HasSubstr("conflict")));
}

TEST(WrittenStress, ThreadsChangeTheSameNames) {
  WritableRig rig({.threads = 4});
  const uint64_t below = rig.below().nodes();
  // The kernel changes one name of a directory at a time.
  std::mutex directory;
  run(4, [&rig, &directory](int thread) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    const auto name = [&random] { return kNames[random() % kNames.size()]; };
    for (int round = 0; round < 150; ++round) {
      switch (random() % 6) {
        case 0:
        case 1: {
          std::unique_lock lock(directory);
          const auto file = rig.create(kRootNode, name());
          lock.unlock();
          ASSERT_EQ(outcome(file), "ok");
          EXPECT_EQ(outcome(rig.write(*file, random() % 10, std::string(100, 'a' + thread))), "ok");
          EXPECT_EQ(outcome(rig.close(*file)), "ok");
          break;
        }
        case 2: {
          const auto file = rig.open_name(kRootNode, name());
          EXPECT_TRUE(is_race(outcome(file))) << outcome(file);
          if (!file) break;
          EXPECT_TRUE(is_race(outcome(rig.read(*file->file, 0, 1000))));
          EXPECT_EQ(outcome(rig.close(*file)), "ok");
          break;
        }
        case 3: {
          std::lock_guard lock(directory);
          const std::string done = rig.rename(kRootNode, name(), kRootNode, name());
          EXPECT_TRUE(is_race(done)) << done;
          break;
        }
        case 4: {
          std::lock_guard lock(directory);
          const std::string done = rig.remove_file(kRootNode, name());
          EXPECT_TRUE(is_race(done)) << done;
          break;
        }
        default: {
          const auto found = rig.lookup(kRootNode, name());
          if (!found) break;
          const std::string done = outcome(rig.set(found->node, {.size = random() % 50}));
          EXPECT_TRUE(is_race(done)) << done;
          rig.files->forget(found->node, 1);
        }
      }
    }
  });
  expect_settled(rig, below);
}

// A program flushes a file while another renames it to and fro.
TEST(WrittenStress, RenamedFileIsFlushedMeanwhile) {
  WritableRig rig({.threads = 4});
  const uint64_t below = rig.below().nodes();
  const OpenedFile file = rig.create(kRootNode, "a").value();
  constexpr int kRounds = 400;
  run(2, [&rig, &file](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      if (thread == 0) {
        EXPECT_EQ(outcome(rig.write(file, 0, fmt::format("{:04}", round))), "ok");
        ASSERT_EQ(outcome(rig.flush(file)), "ok") << round;
      } else {
        const bool even = round % 2 == 0;
        ASSERT_EQ(rig.rename(kRootNode, even ? "a" : "b", kRootNode, even ? "b" : "a"), "ok");
      }
    }
  });
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.keys(), "a");
  EXPECT_EQ(rig.stored("a"), fmt::format("{:04}", kRounds - 1));
  expect_settled(rig, below);
}

// Opens for reading see a complete version while others open, write and close.
TEST(WrittenStress, ReadersSeeNoOlderContent) {
  WritableRig rig({.threads = 4});
  const uint64_t below = rig.below().nodes();
  rig.source->put("a", "0000");
  std::atomic<int> saved = 0;
  run(3, [&rig, &saved](int thread) {
    for (int round = 1; round <= 150; ++round) {
      const int before = saved;
      const auto file = rig.open_name(kRootNode, "a", thread == 0 ? O_RDWR : O_RDONLY);
      ASSERT_EQ(outcome(file), "ok");
      if (thread == 0) {
        EXPECT_EQ(outcome(rig.write(*file, 0, fmt::format("{:04}", round))), "ok");
        saved = round;
      } else {
        const auto text = rig.read(*file->file, 0, 4);
        EXPECT_EQ(outcome(text), "ok");
        if (text) EXPECT_GE(std::stoi(*text), before);
      }
      EXPECT_EQ(outcome(rig.close(*file)), "ok");
    }
  });
  EXPECT_EQ(rig.stored("a"), "0150");
  expect_settled(rig, below);
}

// Truncations by name race with the last close, which drops the written content.
TEST(WrittenStress, TruncationsRaceWithCloses) {
  WritableRig rig({.threads = 4});
  const uint64_t below = rig.below().nodes();
  rig.source->put("a", "0123456789");
  run(4, [&rig](int thread) {
    for (int round = 0; round < 150; ++round) {
      if (thread % 2 == 0) {
        const auto file = rig.open_name(kRootNode, "a", O_RDWR);
        ASSERT_EQ(outcome(file), "ok");
        EXPECT_EQ(outcome(rig.write(*file, 0, "01234")), "ok");
        EXPECT_EQ(outcome(rig.close(*file)), "ok");
      } else {
        const auto found = rig.lookup(kRootNode, "a");
        ASSERT_TRUE(found);
        EXPECT_EQ(outcome(rig.set(found->node, {.size = 5u + round % 5})), "ok");
        rig.files->forget(found->node, 1);
      }
    }
  });
  expect_settled(rig, below);
}

// ---- one thread against a model

// The namespace by a map. The seed is in the failure.
TEST(WrittenStress, RandomOperationsMatchAModel) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    WritableRig rig;
    const uint64_t below = rig.below().nodes();
    std::minstd_rand random(seed);
    std::map<std::string, std::string> model;
    const auto name = [&random] { return std::string(kNames[random() % kNames.size()]); };
    for (int round = 0; round < 120; ++round) {
      const std::string at = name(), to = name();
      switch (random() % 5) {
        case 0: {
          const bool truncate = random() % 2 == 0;
          const OpenedFile file =
              rig.create(kRootNode, at, O_RDWR | O_CREAT | (truncate ? O_TRUNC : 0)).value();
          std::string& text = model[at];
          if (truncate) text.clear();
          const uint64_t offset = random() % 6;
          if (text.size() < offset + 2) text.resize(offset + 2);
          text.replace(offset, 2, std::to_string(10 + round % 90));
          ASSERT_TRUE(rig.write(file, offset, std::to_string(10 + round % 90)));
          ASSERT_EQ(outcome(rig.close(file)), "ok");
          break;
        }
        case 1:
          ASSERT_EQ(rig.remove_file(kRootNode, at), model.erase(at) > 0 ? "ok" : "not_found");
          break;
        case 2: {
          ASSERT_EQ(rig.rename(kRootNode, at, kRootNode, to),
                    model.contains(at) ? "ok" : "not_found");
          if (!model.contains(at) || at == to) break;
          model[to] = model[at];
          model.erase(at);
          break;
        }
        case 3: {
          const auto found = rig.lookup(kRootNode, at);
          ASSERT_EQ(found.has_value(), model.contains(at));
          if (!found) break;
          ASSERT_EQ(outcome(rig.set(found->node, {.size = 4})), "ok");
          rig.files->forget(found->node, 1);
          model[at].resize(4);
          break;
        }
        default: {
          std::string expected;
          for (const auto& [key, text] : model) {
            expected += fmt::format("{}{}:{}", expected.empty() ? "" : " ", key, text.size());
          }
          ASSERT_EQ(rig.list(kRootNode), expected);
        }
      }
      for (const auto& [key, text] : model) ASSERT_EQ(rig.content(kRootNode, key), text);
    }
    expect_settled(rig, below);
  }
}

}  // namespace
}  // namespace leat
