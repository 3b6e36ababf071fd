// SPDX-License-Identifier: Apache-2.0
#include "vfs/next_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using testing::pattern;
using testing::TreeRig;
using testing::TreeRigOptions;

constexpr size_t kBytes = 3000;

std::string name(uint64_t number) {
  return fmt::format("{:05}", number);
}

class NextFilesTest : public ::testing::Test {
 protected:
  static TreeRigOptions options() {
    TreeRigOptions options;
    options.freshness = {.mode = Freshness::Mode::kImmutable};
    options.next_files = true;
    options.threads = 1;  // earlier posts are done when settle() returns
    return options;
  }

  void put(const std::string& folder, uint64_t files) {
    for (uint64_t number = 0; number < files; ++number) {
      rig->source->put(folder + name(number), pattern(kBytes, number));
    }
  }
  NodeId directory(std::initializer_list<const char*> path) {
    NodeId at = kRootNode;
    for (const char* part : path) at = rig->node(at, part);
    return at;
  }
  std::shared_ptr<OpenFile> open(NodeId parent, uint64_t number) {
    return *rig->open(rig->node(parent, name(number)));
  }
  void open_and_read(NodeId parent, uint64_t number) {
    const std::shared_ptr<OpenFile> file = open(parent, number);
    EXPECT_EQ(*rig->read(*file, 0, kBytes), pattern(kBytes, number));
  }
  // Waits until the work begun has ended.
  bool comes_into_cache(const FileRef& ref) {
    for (int tries = 0; tries < 1'000'000; ++tries) {
      if (rig->store->cached_bytes(ref) == ref.size) return true;
      settle();
    }
    return false;
  }
  // Lets the executor run earlier posts.
  void settle() { rig->executor.wait(nothing()); }
  void settle_all() {
    for (int i = 0; i < 2000; ++i) settle();
  }
  static Task<> nothing() { co_return; }
  FileRefPtr ref_of(const std::string& path) {
    return (**rig->catalog->try_lookup("/data/" + path)).ref;
  }
  uint64_t cached(const std::string& folder, uint64_t files) {
    uint64_t count = 0;
    for (uint64_t number = 0; number < files; ++number) {
      const FileRefPtr ref = ref_of(folder + name(number));
      count += rig->store->cached_bytes(*ref) == ref->size ? 1 : 0;
    }
    return count;
  }

  std::unique_ptr<TreeRig> rig = std::make_unique<TreeRig>(options());
};

TEST_F(NextFilesTest, FetchesWhatFollowsOpensInNameOrder) {
  put("d/", 100);
  const NodeId parent = directory({"d"});
  for (uint64_t number = 0; number < 3; ++number) open_and_read(parent, number);
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(3))));
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(6))));
  EXPECT_EQ(rig->store->cached_bytes(*ref_of("d/" + name(50))), 0u);
}

TEST_F(NextFilesTest, FetchesNothingForRandomOpens) {
  put("d/", 400);
  const NodeId parent = directory({"d"});
  std::vector<uint64_t> order(400);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, std::mt19937_64(3));
  order.resize(200);
  for (const uint64_t number : order) open_and_read(parent, number);
  settle_all();
  EXPECT_EQ(cached("d/", 400), 200u);
}

// Uncached bytes must be read before they are evicted, also when the memory is full of bytes that
// the previous pass prefetched beyond its end.
TEST_F(NextFilesTest, WithoutACacheFetchesNoMoreAheadThanTheMemoryHolds) {
  constexpr uint64_t kRead = 40, kLarge = kMiB;
  TreeRigOptions uncached = options();
  uncached.cached = false;
  uncached.fetch.memory_bytes_max = 16 * kMiB;
  uncached.fetch.now = [now = Clock::now()] { return now; };  // unread bytes stay young
  rig = std::make_unique<TreeRig>(uncached);
  for (uint64_t number = 0; number < 3 * kRead; ++number) {
    rig->source->put("d/" + name(number), std::string(kLarge, 'x'));
  }
  const NodeId parent = directory({"d"});
  for (int pass = 0; pass < 3; ++pass) {
    const uint64_t before = rig->source->read_bytes();
    for (uint64_t number = 0; number < kRead; ++number) {
      const std::shared_ptr<OpenFile> file = open(parent, number);
      ASSERT_TRUE(rig->read(*file, 0, kLarge));
      for (int i = 0; i < 50; ++i) settle();
    }
    EXPECT_LE(rig->source->read_bytes() - before, (kRead + 8) * kLarge) << pass;
  }
}

TEST_F(NextFilesTest, GoesOnInTheNextDirectoryWhoseNamesAreKnown) {
  put("a/", 20);
  put("b/", 20);
  const NodeId first = directory({"a"}), second = directory({"b"});
  rig->node(second, name(19));  // its names are known from here on
  rig->node(first, name(0));
  ASSERT_TRUE(rig->open_directory(kRootNode));
  for (uint64_t number = 0; number < 20; ++number) {
    open_and_read(first, number);
    settle_all();  // an open beside a job begins none, and no later one would
  }
  EXPECT_TRUE(comes_into_cache(*ref_of("b/" + name(0))));
}

TEST_F(NextFilesTest, AsksTheStoreForNoListing) {
  put("a/", 20);
  put("b/", 20);
  const NodeId first = directory({"a"});
  rig->node(first, name(0));
  ASSERT_TRUE(rig->open_directory(kRootNode));
  const uint64_t before = rig->source->lists();
  for (uint64_t number = 0; number < 20; ++number) open_and_read(first, number);
  settle_all();
  EXPECT_EQ(rig->source->lists(), before);
}

TEST_F(NextFilesTest, FetchesNothingFromAListingThatAged) {
  TreeRigOptions aging = options();
  aging.freshness = {.mode = Freshness::Mode::kMaxAge, .max_age = std::chrono::seconds(10)};
  rig = std::make_unique<TreeRig>(aging);
  put("d/", 100);
  const NodeId parent = directory({"d"});
  std::vector<NodeId> nodes;
  for (uint64_t number = 0; number < 6; ++number) nodes.push_back(rig->node(parent, name(number)));
  const FileRefPtr later = ref_of("d/" + name(8));
  rig->advance(std::chrono::seconds(11));
  for (const NodeId node : nodes) {
    auto opened = rig->files->try_open(node, O_RDONLY);
    EXPECT_FALSE(opened);  // a request to the store would be needed
  }
  settle_all();
  EXPECT_EQ(rig->store->cached_bytes(*later), 0u);
}

TEST_F(NextFilesTest, TheFileSystemMayGoWhileAJobIsDue) {
  put("d/", 100);
  const NodeId parent = directory({"d"});
  for (uint64_t number = 0; number < 50; ++number) open(parent, number);
  rig->files.reset();
  settle_all();
}

// Its jobs end later than the mount, and its nodes end with the mount.
TEST_F(NextFilesTest, AMountThatGoesTakesNothingFromItsJobs) {
  for (int round = 0; round < 20; ++round) {
    const std::unique_ptr<SharedRecords> records = SharedRecords::create("leat-test").value();
    TreeRigOptions kept = options();
    kept.records = records.get();
    rig = std::make_unique<TreeRig>(kept);
    put("d/", 40);
    const NodeId parent = directory({"d"});
    for (uint64_t number = 0; number < 40; ++number) EXPECT_TRUE(open(parent, number));
    rig.reset();
  }
  rig = std::make_unique<TreeRig>(options());
}

}  // namespace
}  // namespace leat
