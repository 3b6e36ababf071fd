// SPDX-License-Identifier: Apache-2.0
#include "source/range_listing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>

#include "source/memory_source_test.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MemorySource;

// A bucket that lists from any key, in pages of ten; counts what is listed at once.
class RangeSource : public MemorySource {
 public:
  explicit RangeSource(bool from_any_key = true) : MemorySource("ranges", 10) {
    capabilities_ = MemorySource::capabilities();
    capabilities_.lists_from_any_key = from_any_key;
  }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  void fail_at(uint64_t page) { fails_at_ = page; }
  uint64_t most() const { return most_; }

  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    if (++pages_ == fails_at_) co_return error(StatusCode::kUnavailable, "made to fail");
    const uint64_t now = ++inside_;
    for (uint64_t seen = most_; now > seen && !most_.compare_exchange_weak(seen, now);) {
    }
    Result<> slept = co_await sleep_for(context, std::chrono::milliseconds(1));
    --inside_;
    if (!slept) co_return Error(slept.error());
    co_return co_await MemorySource::list(context, std::move(request));
  }

 private:
  SourceCapabilities capabilities_;
  std::atomic<uint64_t> pages_ = 0, fails_at_ = UINT64_MAX, inside_ = 0, most_ = 0;
};

class RangeListingTest : public ::testing::Test {
 protected:
  struct Listed {
    std::vector<std::string> keys;  // sorted
    uint64_t pages = 0;
  };
  Result<Listed> list(std::string prefix, bool recursive = false) {
    Listed listed;
    bool inside = false;
    auto add = [&](ListPage page) -> Task<Result<>> {
      EXPECT_FALSE(std::exchange(inside, true)) << "one page at a time";
      for (const SourceObject& object : page.objects) listed.keys.push_back(object.key);
      ++listed.pages;
      inside = false;
      co_return Result<>();
    };
    Result<> done = executor_.block_on(list_in_ranges(
        Context::background(), source_, {.prefix = std::move(prefix), .recursive = recursive},
        executor_, add, {.requests_max = 8, .pages_in_order = 2}));
    if (!done) return Error(done.error());
    std::ranges::sort(listed.keys);
    return listed;
  }
  void put(const std::string& key) { source_->put(key, "x"); }

  Executor executor_{{.threads = 2}};
  std::shared_ptr<RangeSource> source_ = std::make_shared<RangeSource>();
};

TEST_F(RangeListingTest, EachNameIsListedOnceWhateverTheNames) {
  std::mt19937_64 random(1);
  const std::vector<std::function<std::string(int)>> kinds = {
      [](int i) { return fmt::format("img_{:05}.jpg", i); },
      [](int i) { return fmt::format("{}", i); },
      [&](int) { return fmt::format("{:016x}", random()); },
      [](int i) { return fmt::format("part-{:02}/file", i); },
      [](int i) { return std::string(static_cast<size_t>(i % 100 + 1), 'a' + i / 100 % 26); },
      [](int i) { return fmt::format("{}{}", i % 2 == 0 ? "\xc3\xa9" : "~", i); },
      [](int i) { return fmt::format("same/{}", i); },
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    source_ = std::make_shared<RangeSource>();
    std::set<std::string> expected, expected_below;
    for (int i = 0; i < 1500; ++i) {
      const std::string name = kinds[kind](i);
      put("d/" + name);
      expected_below.insert("d/" + name);
      const size_t slash = name.find('/');
      expected.insert("d/" + name.substr(0, slash == std::string::npos ? slash : slash + 1));
    }
    put("e/behind");
    const Listed flat = *list("d/"), below = *list("d/", true);
    EXPECT_EQ(flat.keys, std::vector(expected.begin(), expected.end())) << "kind " << kind;
    EXPECT_EQ(below.keys, std::vector(expected_below.begin(), expected_below.end()))
        << "kind " << kind;
  }
}

TEST_F(RangeListingTest, ManyPagesAreListedAtOnce) {
  for (int i = 0; i < 3000; ++i) put(fmt::format("d/{:06}", i * 7));
  const Listed listed = *list("d/");
  EXPECT_EQ(listed.keys.size(), 3000u);
  EXPECT_EQ(source_->most(), 8u);
  EXPECT_LE(listed.pages, 300 * 5 / 4) << "few pages more than in order";
}

TEST_F(RangeListingTest, ASmallPrefixCostsItsPagesOnly) {
  for (int i = 0; i < 20; ++i) put(fmt::format("d/{:02}", i));
  EXPECT_EQ(list("d/")->keys.size(), 20u);
  EXPECT_EQ(source_->lists(), 2u);
  EXPECT_THAT(list("none/")->keys, IsEmpty());
  EXPECT_EQ(source_->lists(), 3u);
}

TEST_F(RangeListingTest, AStoreWithoutKeysAsTokensIsListedInOrder) {
  source_ = std::make_shared<RangeSource>(false);
  for (int i = 0; i < 500; ++i) put(fmt::format("d/{:06}", i));
  EXPECT_EQ(list("d/")->keys.size(), 500u);
  EXPECT_EQ(source_->lists(), 50u);
  EXPECT_EQ(source_->most(), 1u);
}

TEST_F(RangeListingTest, AFailedPageFailsTheListing) {
  for (int i = 0; i < 1000; ++i) put(fmt::format("d/{:06}", i));
  for (uint64_t page : {1, 2, 3, 20, 60}) {
    auto keep = source_;
    source_ = std::make_shared<RangeSource>();
    for (int i = 0; i < 1000; ++i) put(fmt::format("d/{:06}", i));
    source_->fail_at(page);
    EXPECT_EQ(list("d/").error().code(), StatusCode::kUnavailable) << page;
  }
}

TEST_F(RangeListingTest, ACancelledListingEnds) {
  for (int i = 0; i < 1000; ++i) put(fmt::format("d/{:06}", i));
  std::stop_source stop;
  uint64_t pages = 0;
  auto add = [&](ListPage) -> Task<Result<>> {
    if (++pages == 10) stop.request_stop();
    co_return Result<>();
  };
  Result<> done = executor_.block_on(
      list_in_ranges(Context::background().with_cancel(stop.get_token()), source_, {.prefix = "d/"},
                     executor_, add, {.pages_in_order = 2}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), StatusCode::kCancelled);
}

ListPage page_of(std::vector<std::string> keys) {
  ListPage page;
  for (std::string& key : keys) page.objects.emplace_back().key = std::move(key);
  page.next_token = page.objects.back().key;
  return page;
}

TEST(SplitKeys, GoOnWithTheCharactersThatVary) {
  EXPECT_THAT(split_keys("d/", page_of({"d/n00", "d/n01", "d/n12"}), ""), ElementsAre("d/n2"))
      << "only 0, 1 and 2 vary";
  EXPECT_THAT(split_keys("d/", page_of({"d/a00.jpg", "d/a03.jpg", "d/a07.jpg"}), ""),
              ElementsAre("d/a3", "d/a7"))
      << "not the characters of the suffix";
  EXPECT_THAT(split_keys("d/", page_of({"d/003", "d/004", "d/005", "d/009", "d/010", "d/012"}), ""),
              ElementsAre("d/02", "d/03", "d/04", "d/05", "d/09", "d/1", "d/2", "d/3", "d/4", "d/5",
                          "d/9"));
  EXPECT_THAT(split_keys("d/", page_of({"d/003", "d/009", "d/012"}), "d/03"), ElementsAre("d/02"))
      << "keys before the end only";
}

}  // namespace
}  // namespace leat
