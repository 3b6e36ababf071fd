// SPDX-License-Identifier: Apache-2.0
// Tests each promise of source.h for each kind of contract_bucket_test.h. The kinds are real
// servers of all stores that are available here, the local file system, and the shim's memory. The
// double for other modules' tests is one too, alone and behind RetryingSource.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "source/contract_bucket_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::bucket_kinds;

class SourceContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    bucket_ = bucket_kinds().at(GetParam())(executor_);
    ASSERT_TRUE(bucket_) << "a server is missing; run tools/setup test";
    root_ = bucket_->root();
  }

  bool has_small_pages(bool recursive) const {
    return recursive ? bucket_->has_small_trees() : bucket_->has_small_levels();
  }
  bool has_versions() const { return bucket_->has_versions(); }
  Source& source() { return bucket_->source(); }
  void put(const std::string& key, const std::string& content) {
    bucket_->put(root_ + key, content);
  }
  Result<SourceObject> stat(const std::string& key, Context context = {}) {
    return executor_.block_on(source().stat(context, {root_ + key}));
  }
  Result<std::string> read(const std::string& key, ByteRange range, Version version = {},
                           Context context = {}) {
    std::string into(range.size, '?');
    auto done = executor_.block_on(source().read(context, {root_ + key, range, std::move(version)},
                                                 std::as_writable_bytes(std::span(into))));
    if (!done) return Error(done.error());
    return into;
  }
  // Reads all pages, with keys without the root; checks the properties of each page.
  Result<std::vector<SourceObject>> list(const std::string& prefix, bool recursive) {
    std::vector<SourceObject> all;
    ListRequest request{root_ + prefix, recursive, ""};
    do {
      auto page = executor_.block_on(source().list(Context::background(), request));
      if (!page) return Error(page.error());
      if (has_small_pages(recursive)) EXPECT_LE(page->objects.size(), 7u);
      for (SourceObject& object : page->objects) {
        EXPECT_TRUE(object.key.starts_with(request.prefix)) << object.key;
        EXPECT_NE(object.key, request.prefix);
        object.key = object.key.substr(root_.size());
        if (!all.empty()) EXPECT_LT(all.back().key, object.key) << "sorted, never repeated";
        all.push_back(std::move(object));
      }
      request.token = page->next_token;
    } while (!request.token.empty() && all.size() < 10'000);
    return all;
  }
  std::vector<std::string> keys(const std::string& prefix, bool recursive) {
    auto listed = list(prefix, recursive);
    EXPECT_TRUE(listed) << (listed ? "" : listed.error().to_string());
    std::vector<std::string> names;
    for (const SourceObject& object : listed.value_or(std::vector<SourceObject>())) {
      if (!recursive || object.kind == FileKind::kFile) names.push_back(object.key);
    }
    return names;
  }

  Executor executor_;
  std::unique_ptr<testing::Bucket> bucket_;
  std::string root_;
};

using Names = std::vector<std::string>;

TEST_P(SourceContract, WhatWasPutIsThere) {
  put("d/file.bin", "0123456789");
  auto object = stat("d/file.bin");
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_EQ(object->key, root_ + "d/file.bin");
  EXPECT_EQ(object->kind, FileKind::kFile);
  EXPECT_EQ(object->size, 10u);
  EXPECT_EQ(object->version.known(), has_versions());
  EXPECT_EQ(object->mtime.has_value(), has_versions());
  EXPECT_EQ(read("d/file.bin", {0, 10}, object->version), "0123456789");
  EXPECT_EQ(read("d/file.bin", {3, 4}), "3456");
  EXPECT_EQ(read("d/file.bin", {9, 1}), "9");
  EXPECT_EQ(read("d/file.bin", {4, 0}), "");
}

TEST_P(SourceContract, AnEmptyObjectIsAnObject) {
  put("empty", "");
  auto object = stat("empty");
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_EQ(object->size, 0u);
  EXPECT_EQ(object->kind, FileKind::kFile);
  EXPECT_EQ(read("empty", {0, 0}), "");
}

TEST_P(SourceContract, WhatIsNotThereIsNotFound) {
  put("d/f", "x");
  for (const char* key : {"absent", "d", "d/absent", "absent/"}) {
    auto object = stat(key);
    ASSERT_FALSE(object) << key;
    EXPECT_EQ(object.error().code(), StatusCode::kNotFound) << object.error().to_string();
  }
  auto content = read("absent", {0, 1});
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code(), StatusCode::kNotFound) << content.error().to_string();
  EXPECT_NE(content.error().to_string().find("absent"), std::string::npos);
}

TEST_P(SourceContract, ADirectoryIsAskedForWithItsSlash) {
  put("d/e/f", "x");
  for (const char* key : {"d/", "d/e/", ""}) {
    auto object = stat(key);
    ASSERT_TRUE(object) << object.error().to_string();
    EXPECT_EQ(object->kind, FileKind::kDirectory);
    EXPECT_FALSE(object->version.known());
  }
}

TEST_P(SourceContract, OneLevelFoldsWhatIsDeeper) {
  put("a/1", "1");
  put("a/b/2", "22");
  put("a/b/3", "333");
  put("a/c/d/4", "4444");
  put("a.txt", "5");
  EXPECT_EQ(keys("", false), (Names{"a.txt", "a/"}));
  EXPECT_EQ(keys("a/", false), (Names{"a/1", "a/b/", "a/c/"}));
  EXPECT_EQ(keys("a/", true), (Names{"a/1", "a/b/2", "a/b/3", "a/c/d/4"}));
}

TEST_P(SourceContract, AListingTellsWhatStatTells) {
  put("d/x", "12345");
  put("d/y", "123");
  auto listed = list("d/", false);
  ASSERT_TRUE(listed) << listed.error().to_string();
  ASSERT_EQ(listed->size(), 2u);
  for (const SourceObject& object : *listed) {
    auto alone = stat(object.key);
    ASSERT_TRUE(alone);
    EXPECT_EQ(object.size, alone->size);
    EXPECT_EQ(object.version, alone->version) << object.version.to_string();
    EXPECT_EQ(object.mtime, alone->mtime);
  }
}

TEST_P(SourceContract, PagesGoOnWhereTheyEnded) {
  Names files, level;
  for (int i = 0; i < 30; ++i) {
    files.push_back(fmt::format("d/{:02}", i));
    // Names around '/' in the byte order.
    if (i % 3 == 0) files.back() += "/in";
    if (i % 3 == 1) files.back() += "-";
    level.push_back(i % 3 == 0 ? fmt::format("d/{:02}/", i) : files.back());
    put(files.back(), "x");
  }
  std::ranges::sort(level);
  EXPECT_EQ(keys("d/", false), level);
  EXPECT_EQ(keys("d/", true), files);
  EXPECT_EQ(keys("", true), files);
}

TEST_P(SourceContract, ADirectoryIsWhatHasSomethingBelow) {
  put("d/sub/f", "x");
  for (const char* key : {"d/", "d/sub/"}) {
    auto directory = stat(key);
    ASSERT_TRUE(directory) << key << ": " << directory.error().to_string();
    EXPECT_EQ(directory->kind, FileKind::kDirectory);
  }
  for (const char* key : {"d", "d/su/", "d/sub/f/", "none/"}) {
    EXPECT_EQ(stat(key).error().code(), StatusCode::kNotFound) << key;
  }
}

TEST_P(SourceContract, NothingUnderAPrefix) {
  put("d/f", "x");
  auto listed = list("none/", false);
  if (source().capabilities().real_directories) {
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code(), StatusCode::kNotFound) << listed.error().to_string();
  } else {
    ASSERT_TRUE(listed) << listed.error().to_string();
    EXPECT_TRUE(listed->empty());
  }
}

TEST_P(SourceContract, AReadOfAnotherVersionIsRefused) {
  put("f", "before");
  auto before = stat("f");
  ASSERT_TRUE(before);
  put("f", "after!");
  auto after = stat("f");
  ASSERT_TRUE(after);
  if (!has_versions()) {
    EXPECT_EQ(read("f", {0, 6}, Version::etag("\"1\"")).error().code(),
              StatusCode::kVersionChanged);
    return;
  }
  EXPECT_NE(before->version, after->version);
  auto stale = read("f", {0, 6}, before->version);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code(), StatusCode::kVersionChanged) << stale.error().to_string();
  EXPECT_EQ(read("f", {0, 6}, after->version), "after!");
}

TEST_P(SourceContract, ARangePastTheEndIsOutOfRange) {
  put("f", "0123456789");
  for (ByteRange range : {ByteRange{8, 4}, ByteRange{10, 1}, ByteRange{1000, 1000}}) {
    auto content = read("f", range);
    ASSERT_FALSE(content) << range.offset;
    EXPECT_EQ(content.error().code(), StatusCode::kOutOfRange) << content.error().to_string();
  }
}

TEST_P(SourceContract, NamesAreTakenLiterally) {
  const Names names = {"d/a b",    "d/a+b",         "d/a%20b",  "d/a&b=c", "d/a?b#c",
                       "d/ä€漢😀", "d/'\"<>`{}|\\", "d/~!@",    "d/..a",   "d/a..",
                       "d/...",    "d/-",           "d/a c/c d"};
  Names sorted, taken;
  for (const std::string& name : names) {
    if (bucket_->lists(name)) sorted.push_back(name);
    if (bucket_->takes(name)) {
      put(name, "<" + name + ">");
      taken.push_back(name);
    } else {
      EXPECT_EQ(stat(name).error().code(), StatusCode::kUnsupported) << name;
    }
  }
  std::ranges::sort(sorted);
  EXPECT_EQ(keys("d/", true), sorted);
  ASSERT_EQ(keys("d/a c/", false), Names{"d/a c/c d"});
  for (const std::string& name : taken) {
    EXPECT_TRUE(stat(name)) << name;
    EXPECT_EQ(read(name, {0, name.size() + 2}), "<" + name + ">");
  }
}

TEST_P(SourceContract, KeysMayHave1024Bytes) {
  std::string key = "long";
  while (key.size() + root_.size() < 1024 - 201) key += "/" + std::string(200, 'x');
  key += "/" + std::string(1023 - key.size() - root_.size(), 'y');
  put(key, "far");
  EXPECT_EQ(read(key, {0, 3}), "far");
  EXPECT_EQ(keys("long/", true), Names{key});
}

TEST_P(SourceContract, LargeBodiesArriveWhole) {
  std::string content(5'000'001, '\0');
  std::minstd_rand random(7);
  for (char& c : content) c = static_cast<char>(random());
  put("large", content);
  auto whole = read("large", {0, content.size()});
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_TRUE(*whole == content);
  EXPECT_TRUE(read("large", {1'234'567, 3'000'000}).value() ==
              content.substr(1'234'567, 3'000'000));
}

TEST_P(SourceContract, PiecesAreFilledInTheirOrder) {
  std::string content(300'000, '\0');
  std::minstd_rand random(11);
  for (char& c : content) c = static_cast<char>('a' + random() % 26);
  put("pieces", content);
  auto object = stat("pieces");
  ASSERT_TRUE(object) << object.error().to_string();
  // Not in the order of addresses; one is empty.
  std::string memory(200'000, '?');
  const std::span<std::byte> all = std::as_writable_bytes(std::span(memory));
  const std::vector<std::span<std::byte>> pieces{all.subspan(150'000, 50'000), all.subspan(7, 0),
                                                 all.first(1), all.subspan(1, 149'999)};
  ReadRequest request{root_ + "pieces", {12'345, 200'000}, object->version};
  auto done = executor_.block_on(source().read_scattered(Context::background(), request, pieces));
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_TRUE(memory.substr(150'000) == content.substr(12'345, 50'000));
  EXPECT_TRUE(memory.substr(0, 150'000) == content.substr(62'345, 150'000));
  request.range.offset = 250'000;
  auto beyond = executor_.block_on(source().read_scattered(Context::background(), request, pieces));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), StatusCode::kOutOfRange) << beyond.error().to_string();
}

TEST_P(SourceContract, AContextThatHasEndedIsNotServed) {
  put("f", "x");
  std::stop_source stop;
  stop.request_stop();
  Context cancelled = Context::background().with_cancel(stop.get_token());
  Context late;
  late.deadline = Clock::now() - 1s;
  EXPECT_EQ(stat("f", cancelled).error().code(), StatusCode::kCancelled);
  EXPECT_EQ(stat("f", late).error().code(), StatusCode::kTimedOut);
  EXPECT_EQ(read("f", {0, 1}, {}, cancelled).error().code(), StatusCode::kCancelled);
  EXPECT_EQ(read("f", {0, 1}, {}, late).error().code(), StatusCode::kTimedOut);
  auto listed = executor_.block_on(source().list(cancelled, {root_, false, ""}));
  EXPECT_EQ(listed.error().code(), StatusCode::kCancelled);
}

TEST_P(SourceContract, RandomTreesReadAsTheyWereWritten) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  std::map<std::string, std::string> model;
  for (int i = 0; i < 60; ++i) {
    std::string key;
    for (unsigned depth = pick(4); depth > 0; --depth) key += fmt::format("d{}/", pick(3));
    key += fmt::format("f{}", pick(20));
    model[key] = std::string(pick(3000), static_cast<char>('a' + pick(26)));
    put(key, model[key]);
  }
  Names all;
  for (const auto& [key, content] : model) all.push_back(key);
  EXPECT_EQ(keys("", true), all);
  for (const auto& [key, content] : model) {
    uint64_t from = pick(static_cast<unsigned>(content.size()) + 1);
    uint64_t size = pick(static_cast<unsigned>(content.size() - from) + 1);
    EXPECT_EQ(read(key, {from, size}), content.substr(from, size)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, SourceContract, ::testing::ValuesIn(testing::bucket_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace leat
