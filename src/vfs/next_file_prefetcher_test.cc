// SPDX-License-Identifier: Apache-2.0
#include "vfs/next_file_prefetcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <random>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using testing::metric;
using testing::pattern;
using testing::TreeRig;
using testing::TreeRigOptions;

constexpr size_t kBytes = 3000;

std::string name(uint64_t number) {
  return fmt::format("{:05}", number);
}

class NextFilePrefetcherTest : public ::testing::Test {
 protected:
  static TreeRigOptions options() {
    TreeRigOptions options;
    options.freshness = {.mode = Freshness::Mode::kImmutable};
    options.prefetch_next_files = true;
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
  void settle() { rig->executor.block_on(nothing()); }
  void settle_all() {
    for (int i = 0; i < 2000; ++i) settle();
  }
  static Task<> nothing() { co_return; }
  // The executor does nothing until the promise is fulfilled.
  std::promise<void> hold_executor() {
    std::promise<void> promise;
    rig->executor.post([kept = promise.get_future().share()] { kept.wait(); });
    return promise;
  }
  // From memory alone, so that it needs no executor.
  bool opens_at_once(NodeId node) {
    const auto opened = rig->files->try_open(node, O_RDONLY);
    return opened && *opened;
  }
  void open_in_turn(NodeId parent, uint64_t from, uint64_t to) {
    for (uint64_t number = from; number < to; ++number) {
      open(parent, number);
      settle();
    }
  }
  std::vector<NodeId> nodes(NodeId parent, uint64_t count) {
    std::vector<NodeId> all;
    for (uint64_t number = 0; number < count; ++number) {
      all.push_back(rig->node(parent, name(number)));
    }
    return all;
  }
  static double files_total(std::string_view what) {
    return metric("leat_prefetch_files_total", fmt::format("what=\"{}\"", what));
  }
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

TEST_F(NextFilePrefetcherTest, PrefetchesAfterOpensInNameOrder) {
  put("d/", 100);
  const NodeId parent = directory({"d"});
  for (uint64_t number = 0; number < 3; ++number) open_and_read(parent, number);
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(3))));
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(6))));
  EXPECT_EQ(rig->store->cached_bytes(*ref_of("d/" + name(50))), 0u);
}

TEST_F(NextFilePrefetcherTest, FetchesNothingForRandomOpens) {
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
TEST_F(NextFilePrefetcherTest, UncachedPrefetchFitsTheMemory) {
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

TEST_F(NextFilePrefetcherTest, ContinuesInNextListedDirectory) {
  put("a/", 20);
  put("b/", 20);
  const NodeId first = directory({"a"}), second = directory({"b"});
  rig->node(second, name(19));  // its names are known from here on
  rig->node(first, name(0));
  ASSERT_TRUE(rig->open_directory(kRootNode));
  for (uint64_t number = 0; number < 20; ++number) {
    open_and_read(first, number);
    settle_all();  // an open beside a job starts none, and no later one would
  }
  EXPECT_TRUE(comes_into_cache(*ref_of("b/" + name(0))));
}

// Two runs of one job go beyond the last name.
TEST_F(NextFilePrefetcherTest, ChoosesEachFileOfTheNextDirectoryOnce) {
  put("a/", 6);
  put("b/", 20);
  const NodeId first = directory({"a"}), second = directory({"b"});
  rig->node(second, name(0));
  ASSERT_TRUE(rig->open_directory(kRootNode));
  const std::vector<NodeId> files = nodes(first, 6);
  const uint64_t predicted = files_total("predicted");
  std::promise<void> hold = hold_executor();
  for (uint64_t number = 0; number < 5; ++number) ASSERT_TRUE(opens_at_once(files[number]));
  hold.set_value();
  settle();
  EXPECT_EQ(files_total("predicted") - predicted, 6u);
  for (uint64_t number = 3; number < 6; ++number) {
    EXPECT_TRUE(comes_into_cache(*ref_of("a/" + name(number)))) << number;
  }
  for (uint64_t number = 0; number < 3; ++number) {
    EXPECT_TRUE(comes_into_cache(*ref_of("b/" + name(number)))) << number;
  }
  EXPECT_EQ(rig->store->cached_bytes(*ref_of("b/" + name(3))), 0u);
}

TEST_F(NextFilePrefetcherTest, FollowsReadersIntoEachDirectory) {
  for (const char* folder : {"a/", "b/", "c/", "d/"}) put(folder, 20);
  const NodeId a = directory({"a"}), b = directory({"b"}), c = directory({"c"}),
               d = directory({"d"});
  for (const NodeId parent : {a, b, c, d}) rig->node(parent, name(0));
  ASSERT_TRUE(rig->open_directory(kRootNode));
  open_in_turn(a, 0, 20);
  open_in_turn(c, 0, 20);
  for (const auto& [parent, folder] : {std::pair(b, "b/"), std::pair(d, "d/")}) {
    EXPECT_TRUE(comes_into_cache(*ref_of(folder + name(0)))) << folder;
    open(parent, 0);  // one open is enough there
    EXPECT_TRUE(comes_into_cache(*ref_of(folder + name(1)))) << folder;
  }
}

TEST_F(NextFilePrefetcherTest, CountsPredictedAndUsedFiles) {
  put("d/", 200);
  const NodeId parent = directory({"d"});
  const uint64_t predicted = files_total("predicted"), used = files_total("used");
  for (uint64_t number = 0, before = 0; number < 40; ++number) {
    open_in_turn(parent, number, number + 1);
    const uint64_t chosen = files_total("predicted") - predicted;
    if (chosen == std::exchange(before, chosen)) continue;
    EXPECT_EQ(files_total("used") - used, number - 2) << "all but the first three";
  }
  const uint64_t chosen = files_total("predicted") - predicted;
  EXPECT_GT(chosen, 40u);
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(2 + chosen))));
  EXPECT_EQ(rig->store->cached_bytes(*ref_of("d/" + name(3 + chosen))), 0u);
}

TEST_F(NextFilePrefetcherTest, BacksOffWhenAllIsCachedUntilAStall) {
  put("d/", 100);
  const NodeId parent = directory({"d"});
  for (uint64_t number = 0; number < 8; ++number) {
    rig->node(parent, name(number));
    ASSERT_TRUE(rig->load(ref_of("d/" + name(number))));
  }
  open_in_turn(parent, 0, 8);
  settle_all();
  EXPECT_EQ(cached("d/", 100), 8u) << "opens are not recorded for a while";
  open_and_read(parent, 50);
  open_in_turn(parent, 8, 11);
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(11))));
}

TEST_F(NextFilePrefetcherTest, DoesNotBackOffAfterAJobThatFetched) {
  put("d/", 100);
  const NodeId parent = directory({"d"});
  rig->node(parent, name(3));
  ASSERT_TRUE(rig->load(ref_of("d/" + name(3))));
  open_in_turn(parent, 0, 6);
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(6))));
  EXPECT_TRUE(comes_into_cache(*ref_of("d/" + name(8))));
}

// Another one that shares the slot gets it when the job has ended.
TEST_F(NextFilePrefetcherTest, DirectoryWithPendingJobKeepsItsSlot) {
  constexpr uint64_t kPlaces = 64, kOthers = 600;
  put("a/", 20);
  for (uint64_t other = 0; other < kOthers; ++other) put("o" + name(other) + "/", 1);
  const NodeId first = directory({"a"});
  NodeId second = 0;
  std::string folder;
  for (uint64_t other = 0; other < kOthers && second == 0; ++other) {
    folder = "o" + name(other);
    const NodeId node = rig->node(kRootNode, folder);
    if (shard_of_node(node, kPlaces) == shard_of_node(first, kPlaces)) second = node;
  }
  ASSERT_NE(second, 0u);
  put(folder + "/", 20);
  const std::vector<NodeId> files = nodes(first, 20), others = nodes(second, 20);
  std::promise<void> hold = hold_executor();
  for (uint64_t number = 0; number < 3; ++number) ASSERT_TRUE(opens_at_once(files[number]));
  for (const NodeId other : others) ASSERT_TRUE(opens_at_once(other));
  hold.set_value();
  EXPECT_TRUE(comes_into_cache(*ref_of("a/" + name(3))));
}

TEST_F(NextFilePrefetcherTest, RequestsNoListingFromTheStore) {
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

TEST_F(NextFilePrefetcherTest, FetchesNothingFromAListingThatAged) {
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

TEST_F(NextFilePrefetcherTest, FileSystemMayEndWhileAJobIsPending) {
  put("d/", 100);
  const NodeId parent = directory({"d"});
  for (uint64_t number = 0; number < 50; ++number) open(parent, number);
  rig->files.reset();
  settle_all();
}

// Its jobs end later than the mount, and its nodes end with the mount.
TEST_F(NextFilePrefetcherTest, UnmountLeavesPendingJobsValid) {
  for (int round = 0; round < 20; ++round) {
    const std::unique_ptr<MemfdRecordTable> records = MemfdRecordTable::create("leat-test").value();
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
