// SPDX-License-Identifier: Apache-2.0
// Concurrency: single flight, cancellation, and all operations at once against a model.
#include <gmock/gmock.h>

#include <latch>
#include <map>
#include <random>
#include <thread>

#include "catalog/catalog_fixture_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

struct Answers {
  explicit Answers(ptrdiff_t count) : done(count) {}
  std::mutex mutex;
  std::vector<Result<ListingPtr>> listings;
  std::vector<Result<CatalogEntry>> entries;
  std::latch done;
};

Task<> list_into(Catalog* catalog, Context context, std::string path, Answers* answers) {
  Result<ListingPtr> listing = co_await catalog->list(std::move(context), std::move(path));
  {
    std::lock_guard lock(answers->mutex);
    answers->listings.push_back(std::move(listing));
  }
  answers->done.count_down();
}

Task<> look_up_into(Catalog* catalog, Context context, std::string path, Answers* answers) {
  Result<CatalogEntry> entry = co_await catalog->lookup(std::move(context), std::move(path));
  {
    std::lock_guard lock(answers->mutex);
    answers->entries.push_back(std::move(entry));
  }
  answers->done.count_down();
}

// A bucket where one listing waits with its answer, so that the answer is older than later changes.
class LateSource : public MemorySource {
 public:
  void hold_next() {
    std::lock_guard lock(gate_mutex_);
    next_ = SharedPromise<bool>::make();
  }
  void await_held() const { holds_.wait(false); }
  void release() { held_->set(true); }

  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    Result<ListPage> page = co_await MemorySource::list(context, std::move(request));
    std::shared_ptr<SharedPromise<bool>> gate;
    {
      std::lock_guard lock(gate_mutex_);
      gate = std::exchange(next_, nullptr);
      if (gate) held_ = gate;
    }
    if (!gate) co_return page;
    holds_ = true;
    holds_.notify_all();
    Result<bool> open = co_await gate->wait(context, "a held answer");
    if (!open) co_return Error(open.error());
    co_return page;
  }

 private:
  std::mutex gate_mutex_;
  std::shared_ptr<SharedPromise<bool>> next_, held_;
  std::atomic<bool> holds_ = false;
};

// A bucket of which only the first page of two names is listed before release().
class LongSource : public MemorySource {
 public:
  LongSource() : MemorySource("long", 2) {}
  void hold_first_page() { first_page_ = false; }
  void fail() { failing_ = true; }
  bool failing() const override { return failing_; }
  void release() { gate_->set(true); }

  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    if (!first_page_ || !request.token.empty()) {
      Result<bool> open = co_await gate_->wait(context, "a held page");
      if (!open) co_return Error(open.error());
    }
    co_return co_await MemorySource::list(context, std::move(request));
  }

 private:
  std::atomic<bool> first_page_ = true, failing_ = false;
  const std::shared_ptr<SharedPromise<bool>> gate_ = SharedPromise<bool>::make();
};

TEST_F(CatalogTest, ALookupDoesNotWaitForASecondPage) {
  auto source = std::make_shared<LongSource>();
  for (int i = 0; i < 9; ++i) source->put(fmt::format("d/{}", i), std::to_string(i));
  source->put("d/sub/x", "");
  mount("/m", source);
  Answers answers(1);
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &answers));
  const FileRefPtr ref = lookup("/m/d/8")->ref;
  EXPECT_EQ(ref->size, 1u);
  EXPECT_EQ(source->stats(), 2u) << "as a file, and as a directory";
  EXPECT_EQ(lookup("/m/d/8")->ref, ref);
  EXPECT_EQ(code_of("/m/d/none"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/m/d/none"), StatusCode::kNotFound);
  EXPECT_EQ(source->stats(), 4u) << "once a name";
  EXPECT_FALSE(answers.done.try_wait());
  source->release();
  answers.done.wait();
  ASSERT_TRUE(answers.listings.at(0));
  EXPECT_EQ(names("/m/d").size(), 10u);
  EXPECT_EQ(lookup("/m/d/8")->ref, ref) << "an open file keeps its FileRef";
  EXPECT_TRUE(lookup("/m/d/sub")->info.is_directory());
  EXPECT_EQ(source->stats(), 4u);
  EXPECT_EQ(source->lists(), 5u);
}

TEST_F(CatalogTest, ALookupDoesNotWaitForASlowFirstPage) {
  auto source = std::make_shared<LongSource>();
  source->put("d/a", "a");
  source->put("d/sub/", "");
  source->hold_first_page();
  make_catalog({.first_page_wait = 1ms});
  mount("/m", source);
  EXPECT_TRUE(lookup("/m/d/a"));
  EXPECT_TRUE(lookup("/m/d/sub")->info.is_directory());
  EXPECT_EQ(code_of("/m/d/none"), StatusCode::kNotFound);
  source->release();
  EXPECT_EQ(names("/m/d"), (std::vector<std::string>{"a", "sub/"}));
}

TEST_F(CatalogTest, AStoreThatFailsIsAskedForTheListingOnly) {
  auto source = std::make_shared<LongSource>();
  source->put("d/a", "a");
  source->hold_first_page();
  source->fail();
  make_catalog({.first_page_wait = 1ms});
  mount("/m", source);
  Answers answers(1);
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/a", &answers));
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(answers.done.try_wait());
  source->release();
  answers.done.wait();
  EXPECT_TRUE(answers.entries.at(0));
  EXPECT_EQ(source->stats(), 0u);
}

// Names that were checked during the listing, and changed since it began.
TEST_F(CatalogTest, AListingKeepsWhatWasCheckedDuringIt) {
  auto source = std::make_shared<LongSource>();
  for (int i = 0; i < 5; ++i) source->put(fmt::format("d/{}", i), "old");
  mount("/m", source);
  EXPECT_EQ(lookup("/m/d/4")->info.size, 3u);
  source->remove("d/4");
  catalog_->report_changed("/m/d/4");
  EXPECT_EQ(code_of("/m/d/4"), StatusCode::kNotFound);
  source->put("d/5", "new one");
  EXPECT_EQ(lookup("/m/d/5")->info.size, 7u);
  source->release();
  EXPECT_EQ(names("/m/d"), (std::vector<std::string>{"0", "1", "2", "3", "5"}));
}

TEST_F(CatalogTest, ConcurrentLookupsShareOneListing) {
  for (int i = 0; i < 100; ++i) bucket_->put(fmt::format("d/{}", i), "x");
  mount("/m", bucket_);
  bucket_->hold();
  Answers answers(60);
  for (int i = 0; i < 30; ++i) {
    executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &answers));
    executor_.spawn(
        look_up_into(catalog_.get(), Context::background(), fmt::format("/m/d/{}", i), &answers));
  }
  bucket_->await_arrivals(1);
  settle();
  EXPECT_EQ(bucket_->arrived(), 1u);
  bucket_->release();
  answers.done.wait();
  EXPECT_EQ(bucket_->lists(), 1u);
  ListingPtr last = list("/m/d").value();
  for (const Result<ListingPtr>& listing : answers.listings) {
    ASSERT_TRUE(listing);
    EXPECT_EQ(entries(**listing).size(), 100u);
    EXPECT_EQ(*listing, last);
  }
  for (const Result<CatalogEntry>& entry : answers.entries) EXPECT_TRUE(entry);
}

TEST_F(CatalogTest, CancelledWaiterDoesNotCancelListing) {
  bucket_->put("d/x", "x");
  mount("/m", bucket_);
  bucket_->hold();
  std::stop_source stop;
  Answers impatient(2), patient(1);
  executor_.spawn(list_into(catalog_.get(), Context::background().with_cancel(stop.get_token()),
                            "/m/d", &impatient));
  bucket_->await_arrivals(1);
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/x", &patient));
  executor_.spawn(
      list_into(catalog_.get(), Context::background().with_timeout(2ms), "/m/d", &impatient));
  stop.request_stop();
  impatient.done.wait();
  std::vector<StatusCode> codes;
  for (auto& listing : impatient.listings) codes.push_back(listing.error().code());
  EXPECT_THAT(codes,
              ::testing::UnorderedElementsAre(StatusCode::kCancelled, StatusCode::kTimedOut));
  bucket_->release();
  patient.done.wait();
  EXPECT_TRUE(patient.entries.at(0));
  EXPECT_EQ(bucket_->lists(), 1u);
}

TEST_F(CatalogTest, OlderListingIgnoredAfterInvalidate) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_);
  bucket_->hold();
  Answers before(1), after(1);
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/x", &before));
  bucket_->await_arrivals(1);
  catalog_->invalidate("/m/d");
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/x", &after));
  bucket_->await_arrivals(2);
  bucket_->release();
  before.done.wait();
  after.done.wait();
  EXPECT_TRUE(before.entries.at(0));
  EXPECT_TRUE(after.entries.at(0));
  EXPECT_EQ(bucket_->lists(), 2u);
}

TEST_F(CatalogTest, AReportDuringAListingIsNotLostWithIt) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_);
  EXPECT_TRUE(lookup("/m/d/x"));
  pass(60s);
  bucket_->hold();
  Answers answers(1);
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &answers));
  bucket_->await_arrivals(2);
  catalog_->report_changed("/m/d/x");
  bucket_->release();
  answers.done.wait();
  EXPECT_FALSE(catalog_->try_lookup("/m/d/x"));
  EXPECT_TRUE(lookup("/m/d/x"));
  EXPECT_EQ(bucket_->stats(), 1u);
}

TEST_F(CatalogTest, AReportDuringTheFirstListingIsKept) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_);
  bucket_->hold();
  Answers answers(1);
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &answers));
  bucket_->await_arrivals(1);
  catalog_->report_changed("/m/d/x");
  bucket_->release();
  answers.done.wait();
  EXPECT_FALSE(catalog_->try_lookup("/m/d/x"));
  EXPECT_TRUE(lookup("/m/d/x"));
  EXPECT_EQ(bucket_->stats(), 1u);
}

TEST_F(CatalogTest, AnOlderListingDoesNotReplaceANewer) {
  const auto late = std::make_shared<LateSource>();
  late->put("d/x", "1");
  mount("/m", late);
  late->hold_next();
  Answers older(1);
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &older));
  late->await_held();
  late->put("d/y", "1");
  catalog_->invalidate("/m/d");
  EXPECT_THAT(names("/m/d"), ::testing::ElementsAre("x", "y"));
  late->release();
  older.done.wait();
  EXPECT_THAT(names("/m/d"), ::testing::ElementsAre("x", "y"));
  EXPECT_EQ(late->lists(), 2u) << "the newer listing is still fresh";
}

TEST_F(CatalogTest, ACheckOutlivesAListingBegunBefore) {
  const auto late = std::make_shared<LateSource>();
  late->put("d/x", "1");
  mount("/m", late, "", "validate");
  EXPECT_TRUE(lookup("/m/d/x"));
  pass(60s);
  late->hold_next();
  Answers older(1);
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &older));
  late->await_held();
  pass(1ms);
  late->put("d/x", "22");
  EXPECT_EQ(lookup_for_open("/m/d/x")->info.size, 2u);
  late->release();
  older.done.wait();
  const auto known = catalog_->try_lookup("/m/d/x");
  ASSERT_TRUE(known && *known);
  EXPECT_EQ((*known)->info.size, 2u);
}

TEST_F(CatalogTest, ReportDuringLookupChecksNameAlone) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_);
  EXPECT_TRUE(lookup("/m/d/x"));
  pass(60s);
  bucket_->hold();
  Answers answers(1);
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/x", &answers));
  bucket_->await_arrivals(2);
  catalog_->report_changed("/m/d/x");
  bucket_->release();
  answers.done.wait();
  EXPECT_TRUE(answers.entries.at(0));
  EXPECT_EQ(bucket_->lists(), 2u);
  EXPECT_EQ(bucket_->stats(), 1u) << "the listing may be older than the report";
}

TEST_F(CatalogTest, UnmountDuringListingGivesNotFound) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_);
  bucket_->hold();
  Answers answers(2);
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/x", &answers));
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/d", &answers));
  bucket_->await_arrivals(1);
  settle();
  ASSERT_TRUE(catalog_->unmount("/m"));
  bucket_->release();
  answers.done.wait();
  EXPECT_EQ(answers.entries.at(0).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(answers.listings.at(0).error().code(), StatusCode::kNotFound);
}

TEST_F(CatalogTest, StoppingEndsWhatIsAskedOfStores) {
  bucket_->put("d/x", "1");
  bucket_->put("e/x", "1");
  mount("/m", bucket_);
  EXPECT_THAT(names("/m/d"), ::testing::ElementsAre("x"));
  pass(6s);
  bucket_->hold();
  Answers answers(3);
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/e", &answers));
  executor_.spawn(list_into(catalog_.get(), Context::background(), "/m/e", &answers));
  executor_.spawn(look_up_into(catalog_.get(), Context::background(), "/m/d/new", &answers));
  bucket_->await_arrivals(3);
  settle();  // the second listing has joined the first
  executor_.block_on(catalog_->stop());
  // Only the tests and the mount hold the bucket now.
  EXPECT_EQ(bucket_.use_count(), 3);
  answers.done.wait();
  for (const auto& listing : answers.listings) {
    EXPECT_EQ(listing.error().code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(answers.entries.at(0).error().code(), StatusCode::kCancelled);
  EXPECT_EQ(code_of("/m/e/x"), StatusCode::kUnavailable);
  EXPECT_TRUE(lookup("/m/d/x")) << "memory still answers";
  bucket_->release();
}

TEST_F(CatalogTest, TheCatalogMayEndBeforeItsRequests) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_);
  bucket_->hold();
  Answers answers(1);
  std::stop_source stop;
  executor_.spawn(list_into(catalog_.get(), Context::background().with_cancel(stop.get_token()),
                            "/m/d", &answers));
  bucket_->await_arrivals(1);
  stop.request_stop();
  answers.done.wait();
  catalog_ = nullptr;
  settle();
  bucket_->release();
}

// During concurrent changes, the catalog answers with versions that the name had; afterwards, with
// the content of the bucket.
TEST_F(CatalogTest, LookupsListingsChangesAndUnmountsAtOnce) {
  auto seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  make_catalog({.names_max = 400});
  constexpr int kDirectories = 4, kNames = 150, kSteps = 1500;
  auto path_of = [](uint64_t random) {
    return fmt::format("d{}/{}", random % kDirectories, random / 8 % kNames);
  };
  for (uint64_t i = 0; i < 4096; ++i) bucket_->put(path_of(i), "x");
  auto other = std::make_shared<MemorySource>("other");
  other->put("y", "yy");
  mount("/m", bucket_);

  std::atomic<uint64_t> unexpected = 0;
  auto reader = [&](uint64_t salt) {
    std::mt19937_64 random(seed + salt);
    for (int i = 0; i < kSteps; ++i) {
      std::string path = "/m/" + path_of(random());
      Result<CatalogEntry> entry = random() % 2 == 0 ? lookup(path) : lookup_for_open(path);
      bool fine = entry ? entry->ref && "/m/" + entry->ref->key == path
                        : entry.error().code() == StatusCode::kNotFound;
      Result<ListingPtr> listing =
          random() % 16 == 0 ? list(path.substr(0, 5)) : list("/m/sub/mount");
      fine &= listing || listing.error().code() == StatusCode::kNotFound;
      if (!fine) ++unexpected;
    }
  };
  auto changer = [&] {
    std::mt19937_64 random(seed);
    for (int i = 0; i < kSteps; ++i) {
      std::string key = path_of(random());
      switch (random() % 8) {
        case 0:
          pass(7s);
          break;
        case 1:
          bucket_->remove(key);
          break;
        case 2:
          catalog_->invalidate("/m/" + key.substr(0, 2));
          break;
        case 3:
          catalog_->report_changed("/m/" + key);
          break;
        case 4:
          EXPECT_TRUE(catalog_->unmount("/m"));
          mount("/m", bucket_);
          break;
        case 5:
          mount("/m/sub/mount", other);
          EXPECT_TRUE(catalog_->unmount("/m/sub/mount"));
          break;
        default:
          bucket_->put(key, std::string(random() % 100, 'x'));
          break;
      }
    }
  };
  {
    std::jthread one(reader, 1), two(reader, 2), three(changer);
  }
  EXPECT_EQ(unexpected, 0u) << "seed " << seed;

  pass(60s);
  for (uint64_t i = 0; i < 4096; ++i) {
    std::string key = path_of(i);
    auto truth = executor_.block_on(bucket_->stat(Context::background(), {key}));
    Result<CatalogEntry> entry = lookup("/m/" + key);
    ASSERT_EQ(truth.has_value(), entry.has_value()) << key << " seed " << seed;
    if (truth) ASSERT_EQ(truth->version, entry->ref->version) << key << " seed " << seed;
  }
}

}  // namespace
}  // namespace leat::testing
