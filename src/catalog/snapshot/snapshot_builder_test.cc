// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "catalog/snapshot/snapshot_diff.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "source/memory_source_test.h"

namespace leat::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SnapshotBuilderTest : public ::testing::Test {
 protected:
  SnapshotBuilderTest()
      : folder_(::testing::TempDir() + "/leat_build_" + Id128::random().to_hex()) {
    fs::create_directories(folder_);
  }
  ~SnapshotBuilderTest() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ + "/s.snapshot"; }
  Result<SnapshotHead> build(SourcePtr source, std::string prefix = "",
                             Context context = Context::background(),
                             std::function<void(const SnapshotProgress&)> progress = {}) {
    StoreUrl url{
        .scheme = "memory", .bucket = "bucket", .prefix = std::move(prefix), .options = {}};
    SnapshotBuildOptions options{.path = path(), .progress = std::move(progress)};
    return executor_.block_on(build_snapshot(context, std::move(source), url, executor_, options));
  }
  std::vector<std::string> built() const {
    std::vector<std::string> all;
    auto snapshot = Snapshot::open(path());
    if (!snapshot) return {snapshot.error().to_string()};
    auto cursor = (*snapshot)->all();
    while (auto entry = cursor.next()) {
      all.push_back(entry->path + (entry->kind == FileKind::kDirectory ? "/" : ""));
    }
    return all;
  }

  const std::string folder_;
  Executor executor_{{.threads = 2}};
  std::shared_ptr<MemorySource> bucket_ = std::make_shared<MemorySource>("bucket", 10);
};

TEST_F(SnapshotBuilderTest, HoldsWhatIsBelowThePrefix) {
  for (int i = 0; i < 25; ++i) bucket_->put(fmt::format("data/d/{:02}", i), "xx");
  bucket_->put("data/", "");
  bucket_->put("data/empty/", "");
  bucket_->put("data/d", "both object and prefix");
  bucket_->put("data//odd", "x");
  bucket_->put("other", "x");
  std::vector<uint64_t> seen;
  const int64_t before = std::chrono::system_clock::now().time_since_epoch().count();
  auto head = build(bucket_, "data/", Context::background(),
                    [&](const SnapshotProgress& now) { seen.push_back(now.files); });
  ASSERT_TRUE(head) << head.error().to_string();
  EXPECT_EQ(head->files, 25u);
  EXPECT_EQ(head->bytes, 50u);
  EXPECT_EQ(head->directories, 2u);
  EXPECT_EQ(head->skipped, 2u);
  EXPECT_EQ(head->source, "memory://bucket/data/");
  EXPECT_EQ(head->prefix, "data/");
  EXPECT_EQ(head->store, bucket_->id());
  EXPECT_GE(head->created_ns, before);
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen.back(), 27u) << "before it is known which of them cannot be names";
  const std::vector<std::string> all = built();
  ASSERT_EQ(all.size(), 27u);
  EXPECT_EQ(all.front(), "d/");
  EXPECT_EQ(all.back(), "empty/");
}

// A source with a second page that fails, or repeats the first one.
class TroubledSource : public MemorySource {
 public:
  TroubledSource(bool repeats, std::stop_source* stop)
      : MemorySource("bucket", 10), repeats_(repeats), stop_(stop) {}
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    if (!request.token.empty() && !repeats_ && stop_ == nullptr) {
      co_return error(StatusCode::kUnavailable, "not today");
    }
    if (stop_ != nullptr && !request.token.empty()) stop_->request_stop();
    if (repeats_) request.token = "";
    co_return co_await MemorySource::list(context, std::move(request));
  }

 private:
  const bool repeats_;
  std::stop_source* const stop_;
};

TEST_F(SnapshotBuilderTest, FailedBuildKeepsExistingFile) {
  bucket_->put("old", "x");
  ASSERT_TRUE(build(bucket_));
  std::stop_source stop;
  const std::pair<std::shared_ptr<TroubledSource>, StatusCode> all[] = {
      {std::make_shared<TroubledSource>(false, nullptr), StatusCode::kUnavailable},
      {std::make_shared<TroubledSource>(true, nullptr), StatusCode::kInternal},
      {std::make_shared<TroubledSource>(false, &stop), StatusCode::kCancelled}};
  for (const auto& [source, code] : all) {
    for (int i = 0; i < 100; ++i) source->put(std::to_string(i), "x");
    auto failed = build(source, "", Context::background().with_cancel(stop.get_token()));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), code);
    EXPECT_THAT(built(), ElementsAre("old"));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  }
  SnapshotBuildOptions nowhere{.path = folder_ + "/none/s"};
  StoreUrl url{.scheme = "memory", .bucket = "bucket", .prefix = "", .options = {}};
  auto failed =
      executor_.block_on(build_snapshot(Context::background(), bucket_, url, executor_, nowhere));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().to_string(), HasSubstr("memory://bucket"));
}

TEST_F(SnapshotBuilderTest, DifferencesAreThoseOfTheirNames) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    std::map<std::string, Version> before, after;
    auto random_key = [&] {
      std::string key;
      for (unsigned parts = 1 + random() % 3; parts > 0; --parts) {
        key += fmt::format("{}{}{}", key.empty() ? "" : "/", random() % 4, "!.a"[random() % 3]);
      }
      return key + "f";  // never a directory of another key
    };
    for (int i = 0; i < 60; ++i) bucket_->put(random_key(), "x");
    auto taken = [&](std::map<std::string, Version>& into) {
      EXPECT_TRUE(build(bucket_));
      SnapshotPtr snapshot = Snapshot::open(path()).value();
      auto cursor = snapshot->all();
      while (auto entry = cursor.next()) into[entry->path] = entry->version;
      return snapshot;
    };
    const SnapshotPtr one = taken(before);
    for (int i = 0; i < 20; ++i) bucket_->put(random_key(), "yy");
    for (const auto& [key, version] : before) {
      if (random() % 4 == 0) bucket_->remove(key);
    }
    const SnapshotPtr two = taken(after);
    std::map<std::string, char> wanted, found;
    for (const auto& [key, version] : before) {
      auto now = after.find(key);
      if (now == after.end()) wanted[key] = '-';
      if (now != after.end() && now->second != version) wanted[key] = '*';
    }
    for (const auto& [key, version] : after) {
      if (!before.contains(key)) wanted[key] = '+';
    }
    diff_snapshots(*one, *two, [&](const SnapshotDifference& one) {
      using Kind = SnapshotDifference::Kind;
      EXPECT_EQ(one.before == nullptr, one.kind == Kind::kAdded);
      EXPECT_EQ(one.after == nullptr, one.kind == Kind::kRemoved);
      found[std::string(one.path)] = one.kind == Kind::kAdded     ? '+'
                                     : one.kind == Kind::kRemoved ? '-'
                                                                  : '*';
      return true;
    });
    EXPECT_EQ(found, wanted) << "seed " << seed;
    int told = 0;
    diff_snapshots(*one, *two, [&](const SnapshotDifference&) { return ++told < 2; });
    EXPECT_EQ(told, 2);
  }
}

TEST_F(SnapshotBuilderTest, DirectoryWalkListsEachDirectoryOnce) {
  size_t directories = 1;
  for (int d = 0; d < 30; ++d) {
    for (int i = 0; i < 3; ++i) bucket_->put(fmt::format("data/{}/{}/{}", d % 5, d, i), "xx");
  }
  directories += 5 + 30;
  bucket_->put("data/top", "x");
  ASSERT_TRUE(build(bucket_, "data/"));
  const SnapshotPtr whole = Snapshot::open(path()).value();
  const uint64_t before = bucket_->lists();
  StoreUrl url{.scheme = "memory", .bucket = "bucket", .prefix = "data/", .options = {}};
  const StoreId other = make_store_id("memory", "", "", "other");
  SnapshotProgress last;
  SnapshotBuildOptions options{.path = path(), .directories_max = 4};
  options.identity = SnapshotIdentity{.store = other, .source = "x://other/", .prefix = "there/"};
  options.progress = [&](const SnapshotProgress& now) { last = now; };
  auto built = executor_.block_on(
      build_snapshot(Context::background(), bucket_, url, executor_, std::move(options)));
  ASSERT_TRUE(built) << built.error().to_string();
  EXPECT_EQ(bucket_->lists() - before, directories);
  EXPECT_EQ(last.files, 91u);
  const SnapshotPtr walked = Snapshot::open(path()).value();
  EXPECT_EQ(walked->head().store, other);
  EXPECT_EQ(walked->head().source, "x://other/");
  EXPECT_EQ(walked->head().prefix, "there/");
  EXPECT_EQ(walked->size(), whole->size());
  int differences = 0;
  diff_snapshots(*whole, *walked, [&](const SnapshotDifference&) { return ++differences > 0; });
  EXPECT_EQ(differences, 0);
}

TEST_F(SnapshotBuilderTest, WalkStopsAtFirstErrorWithoutFile) {
  for (int d = 0; d < 50; ++d) bucket_->put(fmt::format("data/{}/x", d), "xx");
  StoreUrl url{.scheme = "memory", .bucket = "bucket", .prefix = "data/", .options = {}};
  std::stop_source cancel;
  SnapshotBuildOptions options{.path = path(), .directories_max = 8};
  options.progress = [&](const SnapshotProgress& now) {
    if (now.files == 10) cancel.request_stop();
  };
  auto built =
      executor_.block_on(build_snapshot(Context::background().with_cancel(cancel.get_token()),
                                        bucket_, url, executor_, std::move(options)));
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code(), StatusCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SnapshotBuilderTest, TooManyNamesAreRefusedWhileTheyAreListed) {
  for (int i = 0; i < 100; ++i) bucket_->put(fmt::format("data/{:03}", i), "xx");
  StoreUrl url{.scheme = "memory", .bucket = "bucket", .prefix = "data/", .options = {}};
  const uint64_t before = bucket_->lists();
  SnapshotBuildOptions options{.path = path(), .names_max = 25};
  auto built = executor_.block_on(
      build_snapshot(Context::background(), bucket_, url, executor_, std::move(options)));
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(built.error().to_string(), HasSubstr("at most 25 names"));
  EXPECT_EQ(bucket_->lists() - before, 3u) << "pages of ten";
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace leat::testing
