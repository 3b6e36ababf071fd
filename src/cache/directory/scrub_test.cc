// SPDX-License-Identifier: Apache-2.0
// Operator commands on the cache: verify, scrub, list, evict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/read_file.h"
#include "cache/directory/directory_store.h"
#include "cache/directory/scrubber.h"
#include "cache/multi_dir/multi_dir_store.h"
#include "cache/store_fixture_test.h"

namespace leat {
namespace {

// A HostCache on real disks.
class Host {
 public:
  explicit Host(std::vector<PageStoreOptions> options) {
    auto opened =
        executor_.block_on(HostCache::open(Context::background(), std::move(options), executor_,
                                           [this] { return make_disk(executor_); }));
    EXPECT_TRUE(opened) << opened.error().to_string();
    if (opened) store_ = *std::move(opened);
  }
  ~Host() {
    if (store_) executor_.block_on(store_->close());
  }
  HostCache* operator->() { return store_.get(); }

  void write(const FileRefPtr& ref, ByteRange range) {
    Result<> kept = executor_.block_on(
        store_->write(Context::background(), ref, range.offset, content(*ref, range)));
    ASSERT_TRUE(kept) << kept.error().to_string();
  }
  void write(const FileRefPtr& ref) { write(ref, {0, ref->size}); }
  bool holds(const FileRefPtr& ref) {
    Result<Bytes> bytes =
        executor_.block_on(store_->read(Context::background(), ref, {0, ref->size}));
    if (bytes) EXPECT_TRUE(same(*bytes, content(ref))) << ref->key;
    return bytes.has_value();
  }
  VerifyStep verify(Context context = Context::background()) {
    VerifyStep sum;
    outcome = executor_.block_on(store_->verify(context, [&](const VerifyStep& step) {
      sum.bytes += step.bytes;
      sum.objects += step.objects;
      sum.corrupt_blocks += step.corrupt_blocks;
    }));
    return sum;
  }
  std::vector<CachedObject> list(size_t page_size) {
    std::vector<CachedObject> all;
    std::string next;
    do {
      auto page = executor_.block_on(store_->objects(Context::background(), next, page_size));
      EXPECT_TRUE(page) << page.error().to_string();
      if (!page) break;
      EXPECT_LE(page->objects.size(), page_size);
      std::ranges::move(page->objects, std::back_inserter(all));
      next = page->next;
    } while (!next.empty());
    return all;
  }
  uint64_t evict(std::optional<PoolId> pool, uint64_t bytes) {
    return executor_.block_on(store_->evict(pool, bytes));
  }
  void flush() { ASSERT_TRUE(executor_.block_on(store_->flush(Context::background()))); }

  Result<> outcome;

 private:
  Executor executor_{{.threads = 2}};
  std::unique_ptr<HostCache> store_;
};

std::vector<FileRefPtr> many(int packed, int files) {
  std::vector<FileRefPtr> refs;
  for (int i = 0; i < packed; ++i) {
    refs.push_back(object(fmt::format("small/{}", i), 1000 + 977 * static_cast<uint64_t>(i % 90)));
  }
  for (int i = 0; i < files; ++i) {
    refs.push_back(object(fmt::format("large/{}", i), 200'000 + 7 * static_cast<uint64_t>(i)));
  }
  return refs;
}

TEST(Verify, ReadsEverythingAndFindsNothingWrong) {
  TempDirectory a, b;
  Host host({TestStore::options(a.path()), TestStore::options(b.path())});
  const auto refs = many(200, 20);
  uint64_t bytes = 0;
  for (const FileRefPtr& ref : refs) {
    host.write(ref);
    bytes += ref->size;
  }
  auto progress = host.verify();
  EXPECT_TRUE(host.outcome);
  EXPECT_EQ(progress.objects, 220);
  EXPECT_EQ(progress.corrupt_blocks, 0);
  EXPECT_GE(progress.bytes, bytes);
  for (const FileRefPtr& ref : refs) EXPECT_TRUE(host.holds(ref));
}

TEST(Verify, WhatFollowsNotesOfDropsIsRead) {
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  const FileRefPtr stays = object("stays", 5000), later = object("later", 5000);
  const FileRefPtr one = object("one", 5000), two = object("two", 5000);
  for (const FileRefPtr& ref : {stays, one, two}) host.write(ref);
  host.flush();
  host->drop(one->id);
  host->drop(two->id);
  host.flush();
  host.write(later);
  host.flush();
  EXPECT_EQ(host.verify().objects, 2);
  EXPECT_TRUE(host.outcome);
}

TEST(Verify, RottenBytesAreDroppedAfterEarlierRead) {
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  const auto refs = many(50, 4);
  for (const FileRefPtr& ref : refs) host.write(ref);
  host.flush();
  for (const FileRefPtr& ref : refs) EXPECT_TRUE(host.holds(ref));
  const FileRefPtr& large = refs[51];
  flip_bit(file_of(a.path(), large, ".data"), 150'000);
  // In the payload of an object: the first one begins at 0.
  flip_bit(files_ending(a.path() + "/segments", ".data")[0], 500);
  auto progress = host.verify();
  EXPECT_TRUE(host.outcome);
  EXPECT_GE(progress.corrupt_blocks, 2);
  EXPECT_FALSE(host.holds(large));
  int lost = 0;
  for (const FileRefPtr& ref : refs) lost += host.holds(ref) ? 0 : 1;
  EXPECT_EQ(lost, 2);
  EXPECT_EQ(host.verify().corrupt_blocks, 0);
}

// Their records are in the order in which the writes completed, not in that of their offsets.
TEST(Verify, FindsNothingWrongInWhatManyWroteAtOnce) {
  constexpr int kWriters = 4, kObjects = 400;
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  std::vector<std::vector<FileRefPtr>> of(kWriters);
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    auto& refs = of[static_cast<size_t>(writer)];
    for (int i = 0; i < kObjects; ++i) {
      const uint64_t size = writer % 2 == 0 ? 60'000 : 500;
      refs.push_back(object(fmt::format("{}/{}", writer, i), size));
    }
    writers.emplace_back([&] {
      for (const FileRefPtr& ref : refs) host.write(ref);
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto progress = host.verify();
  EXPECT_EQ(progress.objects, kWriters * kObjects);
  EXPECT_EQ(progress.corrupt_blocks, 0);
  for (const auto& refs : of) {
    for (const FileRefPtr& ref : refs) EXPECT_TRUE(host.holds(ref));
  }
}

TEST(Verify, TruncatedFilesAreDropped) {
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  auto cut = object("cut", 300'000), bare = object("bare", 300'000),
       whole = object("whole", 300'000);
  for (const FileRefPtr& ref : {cut, bare, whole}) host.write(ref);
  host.flush();
  std::filesystem::resize_file(file_of(a.path(), cut, ".data"), 100'000);
  std::filesystem::resize_file(file_of(a.path(), bare, ".meta"), 60);
  host.verify();
  EXPECT_FALSE(host.holds(cut));
  EXPECT_FALSE(host.holds(bare));
  EXPECT_TRUE(host.holds(whole));
}

TEST(Verify, OfAPartlyFilledFileWhatIsThereIsCompared) {
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  auto ref = object("part", 10 * kBlockBytes);
  host.write(ref, {2 * kBlockBytes, 2 * kBlockBytes});
  host.write(ref, {8 * kBlockBytes, kBlockBytes});
  host.flush();
  EXPECT_EQ(host.verify().corrupt_blocks, 0);
  flip_bit(file_of(a.path(), ref, ".data"), 8 * kBlockBytes + 5);
  EXPECT_EQ(host.verify().corrupt_blocks, 1);
  EXPECT_EQ(host->cached_bytes(*ref), 2 * kBlockBytes);
}

TEST(Verify, EndsWhenItIsAskedTo) {
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  for (const FileRefPtr& ref : many(100, 4)) host.write(ref);
  std::stop_source stop;
  stop.request_stop();
  host.verify(Context::background().with_cancel(stop.get_token()));
  ASSERT_FALSE(host.outcome);
  EXPECT_EQ(host.outcome.error().code(), StatusCode::kCancelled);
}

TEST(Verify, WhatPassedIsTheKernels) {
  TempDirectory a;
  auto ref = object("large", 500'000);
  {
    TestStore store(TestStore::options(a.path()));
    ASSERT_TRUE(store.write_whole(ref));
    ASSERT_TRUE(store.flush());
    store.kill();
  }
  Host host({TestStore::options(a.path())});
  host.verify();
  EXPECT_NE(host->backing(*ref), nullptr);
}

TEST(Scrub, RunsByItselfAndDropsWhatRotted) {
  TempDirectory a;
  PageStoreOptions options = TestStore::options(a.path());
  auto ref = object("large", 500'000), good = object("good", 500'000);
  {
    Host host({options});
    host.write(ref);
    host.write(good);
  }
  flip_bit(file_of(a.path(), ref, ".data"), 1000);
  options.scrub_period = std::chrono::milliseconds(200);
  Host host({options});
  for (int i = 0; i < 500 && host->cached_bytes(*ref) > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the scrub is slow by design
  }
  EXPECT_EQ(host->cached_bytes(*ref), 0);
  EXPECT_EQ(host->stats().corrupt_blocks, block_count(ref->size) > 0 ? 1 : 0);
  EXPECT_TRUE(host.holds(good));
}

TEST(Scrub, KeepsToItsRateAndGoesOnWhereItWas) {
  TempDirectory a;
  PageStoreOptions options = TestStore::options(a.path());
  {
    Host host({options});
    for (const FileRefPtr& ref : many(0, 20)) host.write(ref);
  }
  options.scrub_period = std::chrono::hours(1);
  {
    Host host({options});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  // 256 KiB a second: a pass over 4 MB takes a quarter of a minute.
  const std::string bytes = *read_file(a.path() + "/scrub");
  auto state = ScrubState::decode(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(state);
  EXPECT_LT(state->next_part, 256);
  {
    Host host({options});
  }
  const std::string later = *read_file(a.path() + "/scrub");
  auto then = ScrubState::decode(std::as_bytes(std::span(later)));
  ASSERT_TRUE(then);
  EXPECT_EQ(then->began_ns, state->began_ns);
  EXPECT_GE(then->next_part, state->next_part);
}

TEST(ScrubStateTest, ComesBackAndRefusesWhatIsDamaged) {
  const std::string bytes = ScrubState{.began_ns = 12345, .next_part = 678}.encode();
  EXPECT_EQ(bytes.size(), 32);
  auto state = ScrubState::decode(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->began_ns, 12345);
  EXPECT_EQ(state->next_part, 678);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(ScrubState::decode(std::as_bytes(std::span(damaged)))) << at;
  }
  EXPECT_FALSE(ScrubState::decode(std::as_bytes(std::span(bytes)).first(31)));
}

TEST(CachedObjects, AreListedOnceEachWhateverThePage) {
  TempDirectory a, b;
  Host host({TestStore::options(a.path()), TestStore::options(b.path())});
  const auto refs = many(300, 30);
  std::set<std::string> keys;
  for (const FileRefPtr& ref : refs) {
    host.write(ref);
    keys.insert(ref->key);
  }
  host.flush();
  host->drop(refs[3]->id);
  host->drop(refs[310]->id);
  host.flush();
  keys.erase(refs[3]->key);
  keys.erase(refs[310]->key);
  for (size_t page : {1, 7, 100, 1000}) {
    std::multiset<std::string> listed;
    for (const CachedObject& one : host.list(page)) {
      listed.insert(one.ref.key);
      EXPECT_EQ(one.cached_bytes, one.ref.size);
      EXPECT_EQ(one.packed, one.ref.key.starts_with("small/"));
      EXPECT_TRUE(one.complete) << one.ref.key;
      EXPECT_THAT((std::vector{a.path(), b.path()}), testing::Contains(one.directory));
    }
    EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()), keys) << page;
    EXPECT_EQ(listed.size(), keys.size()) << page;
  }
}

TEST(CachedObjects, APlaceThatNobodyNamedIsRefused) {
  TempDirectory a;
  Host host({TestStore::options(a.path())});
  Executor executor({.threads = 1});
  for (const char* place : {"x", "0", "0:x", "0:f12", "0:s", "0:s1", "0:s1.x", ":", "-1:"}) {
    auto page = executor.block_on(host->objects(Context::background(), place, 10));
    ASSERT_FALSE(page) << place;
    EXPECT_EQ(page.error().code(), StatusCode::kInvalidArgument);
  }
}

FileRefPtr of_pool(const std::string& key, uint64_t size, PoolId pool) {
  auto ref = std::make_shared<FileRef>(*object(key, size));
  ref->pool = pool;
  return ref;
}

TEST(EvictNow, TakesFromThePoolThatIsNamed) {
  TempDirectory a, b;
  Host host({TestStore::options(a.path()), TestStore::options(b.path())});
  for (int i = 0; i < 40; ++i) {
    host.write(of_pool(fmt::format("one/{}", i), 200'000, PoolId{1}));
    host.write(of_pool(fmt::format("two/{}", i), 20'000, PoolId{2}));
  }
  auto used = [&](PoolId id) {
    for (const PoolStats& pool : host->pools()) {
      if (pool.id == id) return pool.used_bytes;
    }
    return uint64_t{0};
  };
  const uint64_t one = used(PoolId{1}), two = used(PoolId{2});
  const uint64_t freed = host.evict(PoolId{1}, 2'000'000);
  EXPECT_GE(freed, 2'000'000);
  EXPECT_LE(freed, 3'000'000);
  // Evicted bytes are returned when their last user in the background is done.
  until([&] { return used(PoolId{1}) == one - freed; });
  EXPECT_EQ(used(PoolId{2}), two);
  host.evict(PoolId{2}, UINT64_MAX);
  until([&] { return used(PoolId{2}) == 0; });
  EXPECT_EQ(host.evict(PoolId{99}, 1000), 0);
  host->set_pool_policy(PoolId{1}, {.pinned = true});
  EXPECT_EQ(host.evict(std::nullopt, UINT64_MAX), 0);
  host->set_pool_policy(PoolId{1}, {});
  EXPECT_GT(host.evict(std::nullopt, UINT64_MAX), 0);
  until([&] { return used(PoolId{1}) == 0; });
}

}  // namespace
}  // namespace leat
