// SPDX-License-Identifier: Apache-2.0
// Tests each promise of source.h about changes for each kind of contract_bucket_test.h. An
// operation that a store does not support must be rejected as such.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "source/contract_bucket_test.h"
#include "source/part_writer.h"

namespace leat {
namespace {

using testing::bucket_kinds;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

std::string random_text(size_t size, unsigned seed) {
  std::minstd_rand random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class WritingContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    bucket_ = bucket_kinds().at(GetParam())(executor_);
    ASSERT_TRUE(bucket_) << "a server is missing; run tools/setup test";
    root_ = bucket_->root();
  }

  Source& source() { return bucket_->source(); }
  const SourceCapabilities& can() { return source().capabilities(); }
  Result<SourceObject> write(const std::string& key, const std::string& content,
                             WriteCondition condition = {}) {
    return executor_.block_on(
        source().write({}, {root_ + key, std::move(condition)}, bytes_of(content)));
  }
  Result<SourceObject> stat(const std::string& key) {
    return executor_.block_on(source().stat({}, {root_ + key}));
  }
  // Returns the whole content, or the error's name.
  std::string content(const std::string& key) {
    auto object = stat(key);
    if (!object) return std::string(to_string(object.error().code()));
    std::string into(object->size, '?');
    auto done =
        executor_.block_on(source().read({}, {root_ + key, {0, into.size()}, object->version},
                                         std::as_writable_bytes(std::span(into))));
    return done ? into : done.error().to_string();
  }
  Result<> remove(std::vector<std::string> keys) {
    for (std::string& key : keys) key = root_ + key;
    return executor_.block_on(source().remove({}, {std::move(keys)}));
  }
  Result<PartWriter> stream(const std::string& key, WriteCondition condition = {}) {
    return PartWriter::begin(source(), {root_ + key, std::move(condition)});
  }
  std::vector<std::string> keys() {
    std::vector<std::string> found;
    ListRequest request{root_, true, ""};
    do {
      auto page = executor_.block_on(source().list({}, request));
      if (!page) break;
      for (const SourceObject& object : page->objects) {
        if (object.kind == FileKind::kFile) found.push_back(object.key.substr(root_.size()));
      }
      request.token = page->next_token;
    } while (!request.token.empty());
    return found;
  }

  Executor executor_;
  std::unique_ptr<testing::Bucket> bucket_;
  std::string root_;
};

using Names = std::vector<std::string>;

#define RETURN_IF_ONLY_READ()                                            \
  if (!can().writes) {                                                   \
    EXPECT_EQ(write("w", "x").error().code(), StatusCode::kUnsupported); \
    EXPECT_EQ(remove({"w"}).error().code(), StatusCode::kUnsupported);   \
    return;                                                              \
  }

TEST_P(WritingContract, WhatWasWrittenIsThere) {
  RETURN_IF_ONLY_READ();
  auto written = write("d/e/f", "0123456789");
  ASSERT_TRUE(written) << written.error().to_string();
  auto there = stat("d/e/f");
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_EQ(written->key, root_ + "d/e/f");
  EXPECT_EQ(written->kind, FileKind::kFile);
  EXPECT_EQ(written->size, 10u);
  EXPECT_EQ(written->version, there->version);
  if (written->mtime) EXPECT_EQ(written->mtime, there->mtime);
  EXPECT_EQ(content("d/e/f"), "0123456789");
}

TEST_P(WritingContract, AnObjectReplacesTheOneBefore) {
  RETURN_IF_ONLY_READ();
  auto before = write("f", "before");
  auto after = write("f", "after, and longer");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(content("f"), "after, and longer");
  EXPECT_TRUE(write("f", ""));
  EXPECT_EQ(content("f"), "");
  EXPECT_EQ(keys(), Names{"f"}) << "and nothing is left beside it";
}

TEST_P(WritingContract, NamesAreWrittenLiterally) {
  RETURN_IF_ONLY_READ();
  for (const char* name : {"a b", "a+b", "a%20b", "a&b=c", "a?b#c", "ä€漢😀", "'\"<>`{}|", "..a"}) {
    auto written = write(fmt::format("n/{}", name), name);
    ASSERT_TRUE(written) << name << ": " << written.error().to_string();
    EXPECT_EQ(content(fmt::format("n/{}", name)), name);
  }
  for (const char* name : {"a//b", "./a", "a/../b", " a", "a "}) {
    if (GetParam() == "double" || GetParam() == "retrying") break;  // its keys are any text
    if (GetParam().ends_with("file") && std::string(name).contains(' ')) continue;
    if (name[0] == ' ' && !root_.empty()) continue;  // it is inside the key
    auto refused = write(name, "x");
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported) << refused.error().to_string();
  }
}

TEST_P(WritingContract, WhatIsWrittenOnlyWhereNothingIs) {
  RETURN_IF_ONLY_READ();
  const WriteCondition absent{.absent = true};
  auto first = write("once", "1", absent);
  if (!can().write_if_absent) {
    EXPECT_EQ(first.error().code(), StatusCode::kUnsupported) << first.error().to_string();
    EXPECT_EQ(content("once"), "not_found");
    return;
  }
  ASSERT_TRUE(first) << first.error().to_string();
  auto second = write("once", "2", absent);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kExists) << second.error().to_string();
  EXPECT_EQ(content("once"), "1");
  EXPECT_EQ(keys(), Names{"once"});
}

TEST_P(WritingContract, WhatIsWrittenOnlyOverAVersion) {
  RETURN_IF_ONLY_READ();
  auto first = write("f", "1");
  ASSERT_TRUE(first);
  auto second = write("f", "2", {.version = first->version});
  if (!can().write_if_version) {
    if (first->version.known()) {
      EXPECT_EQ(second.error().code(), StatusCode::kUnsupported) << second.error().to_string();
      EXPECT_EQ(content("f"), "1");
    }
    return;
  }
  ASSERT_TRUE(second) << second.error().to_string();
  auto late = write("f", "3", {.version = first->version});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kVersionChanged) << late.error().to_string();
  auto gone = write("none", "3", {.version = first->version});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), StatusCode::kVersionChanged) << gone.error().to_string();
  EXPECT_EQ(content("f"), "2");
}

TEST_P(WritingContract, AStreamIsThereWhenItIsFinished) {
  RETURN_IF_ONLY_READ();
  // Three parts, if the server supports them.
  const std::string text = random_text(bucket_->takes_parts() ? 21'000'000 : 7'000'000, 3);
  write("big", "before");
  auto big = stream("big");
  ASSERT_TRUE(big) << big.error().to_string();
  for (size_t at = 0; at < text.size(); at += 3'333'333) {
    auto taken = executor_.block_on(
        big->append({}, bytes_of(text).subspan(at, std::min<size_t>(3'333'333, text.size() - at))));
    ASSERT_TRUE(taken) << taken.error().to_string();
  }
  EXPECT_EQ(content("big"), "before");
  auto object = executor_.block_on(big->complete({}));
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_EQ(object->size, text.size());
  EXPECT_EQ(object->version, stat("big")->version);
  EXPECT_TRUE(content("big") == text);
  EXPECT_EQ(keys(), Names{"big"});
}

TEST_P(WritingContract, ASmallStreamAndAnEmptyOne) {
  RETURN_IF_ONLY_READ();
  for (const std::string& text : {std::string(), std::string("few")}) {
    auto small = stream("s");
    ASSERT_TRUE(small) << small.error().to_string();
    EXPECT_TRUE(executor_.block_on(small->append({}, bytes_of(text))));
    auto object = executor_.block_on(small->complete({}));
    ASSERT_TRUE(object) << object.error().to_string();
    EXPECT_EQ(object->size, text.size());
    EXPECT_EQ(content("s"), text);
  }
}

TEST_P(WritingContract, AnAbandonedStreamLeavesNothing) {
  RETURN_IF_ONLY_READ();
  const std::string text = random_text(bucket_->takes_parts() ? 17'000'000 : 7'000'000, 4);
  auto begun = stream("d/gone");
  ASSERT_TRUE(begun);
  ASSERT_TRUE(executor_.block_on(begun->append({}, bytes_of(text))));
  auto done = executor_.block_on(begun->abort({}));
  EXPECT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(content("d/gone"), "not_found");
  EXPECT_EQ(keys(), Names());
}

TEST_P(WritingContract, AStreamsConditionIsLookedAtAtItsEnd) {
  RETURN_IF_ONLY_READ();
  if (!can().write_if_absent) {
    auto refused = stream("f", {.absent = true});
    // With some kinds only the first request fails.
    if (refused) {
      EXPECT_EQ(executor_.block_on(refused->complete({})).error().code(), StatusCode::kUnsupported);
    }
    EXPECT_EQ(content("f"), "not_found");
    return;
  }
  auto begun = stream("f", {.absent = true});
  ASSERT_TRUE(begun) << begun.error().to_string();
  ASSERT_TRUE(executor_.block_on(begun->append({}, bytes_of(random_text(7'000'000, 5)))));
  ASSERT_TRUE(write("f", "first"));
  auto object = executor_.block_on(begun->complete({}));
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code(), StatusCode::kExists) << object.error().to_string();
  EXPECT_EQ(content("f"), "first");
}

// The store copies the middle of the new object from the one that it replaces.
TEST_P(WritingContract, CopiedPartsAreThere) {
  RETURN_IF_ONLY_READ();
  const std::string text = random_text(bucket_->takes_parts() ? 13'000'000 : 7'000'000, 6);
  auto before = stream("d/a b+c");
  ASSERT_TRUE(executor_.block_on(before->append({}, bytes_of(text))));
  auto from = executor_.block_on(before->complete({}));
  ASSERT_TRUE(from) << from.error().to_string();
  auto begun = source().begin_write({from->key, {.version = from->version}});
  if (!can().copies_parts) {
    if (!begun) return;
    const PartCopy all{from->key, from->version, {0, text.size()}};
    auto refused = executor_.block_on((*begun)->copy_part({}, all, {}));
    EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported) << refused.error().to_string();
    return;
  }
  ASSERT_TRUE(begun) << begun.error().to_string();
  ObjectWriter& writer = **begun;
  const std::string first = random_text(6'000'000, 7), last = "the end";
  const ByteRange middle{5'500'001, 6'000'003};
  ASSERT_TRUE(executor_.block_on(writer.append({}, bytes_of(first), {})));
  auto copied = executor_.block_on(writer.copy_part({}, {from->key, from->version, middle}, {}));
  ASSERT_TRUE(copied) << copied.error().to_string();
  ASSERT_TRUE(executor_.block_on(writer.append({}, bytes_of(last), {})));
  auto object = executor_.block_on(writer.complete({}, {}));
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_EQ(object->size, first.size() + middle.size + last.size());
  EXPECT_EQ(object->version, stat("d/a b+c")->version);
  EXPECT_TRUE(content("d/a b+c") == first + text.substr(middle.offset, middle.size) + last);
}

TEST_P(WritingContract, PartOfAnotherVersionIsNotCopied) {
  // Moto does not look at the condition of a copied part.
  if (!can().copies_parts || GetParam() == "moto") return;
  const std::string text = random_text(6'000'000, 8);
  auto old = write("x", text);
  ASSERT_TRUE(old && write("x", random_text(6'000'000, 9)));
  auto begun = source().begin_write({root_ + "y"});
  ASSERT_TRUE(begun);
  // A part is sent in the background: a failure may come at the end.
  auto done = executor_.block_on(
      (*begun)->copy_part({}, {root_ + "x", old->version, {0, text.size()}}, {}));
  StatusCode code =
      done ? executor_.block_on((*begun)->complete({}, {})).error().code() : done.error().code();
  EXPECT_EQ(code, StatusCode::kVersionChanged);
  EXPECT_TRUE(executor_.block_on((*begun)->abort({}, {})));
  EXPECT_EQ(content("y"), "not_found");
}

TEST_P(WritingContract, ACopyIsThere) {
  RETURN_IF_ONLY_READ();
  ASSERT_TRUE(write("from", "text"));
  auto copied = executor_.block_on(source().copy({}, {root_ + "from", root_ + "d/to"}));
  if (!can().copies) {
    EXPECT_EQ(copied.error().code(), StatusCode::kUnsupported) << copied.error().to_string();
    return;
  }
  ASSERT_TRUE(copied) << copied.error().to_string();
  EXPECT_EQ(copied->version, stat("d/to")->version);
  EXPECT_EQ(copied->size, 4u);
  EXPECT_EQ(content("d/to"), "text");
  EXPECT_EQ(content("from"), "text");
  auto none = executor_.block_on(source().copy({}, {root_ + "none", root_ + "to"}));
  EXPECT_EQ(none.error().code(), StatusCode::kNotFound) << none.error().to_string();
}

TEST_P(WritingContract, ARenamedFileIsSomewhereElse) {
  RETURN_IF_ONLY_READ();
  ASSERT_TRUE(write("from", "new"));
  ASSERT_TRUE(write("d/to", "old"));
  auto renamed = executor_.block_on(source().rename({}, {root_ + "from", root_ + "d/to"}));
  if (!can().renames) {
    EXPECT_EQ(renamed.error().code(), StatusCode::kUnsupported) << renamed.error().to_string();
    EXPECT_EQ(content("d/to"), "old");
    return;
  }
  ASSERT_TRUE(renamed) << renamed.error().to_string();
  EXPECT_EQ(content("d/to"), "new");
  EXPECT_EQ(keys(), Names{"d/to"});
  auto none = executor_.block_on(source().rename({}, {root_ + "none", root_ + "e"}));
  EXPECT_EQ(none.error().code(), StatusCode::kNotFound) << none.error().to_string();
}

TEST_P(WritingContract, ARenamedDirectoryTakesAllAlong) {
  RETURN_IF_ONLY_READ();
  if (!can().renames || !can().real_directories) return;
  ASSERT_TRUE(write("d/e/f", "1"));
  ASSERT_TRUE(write("d/g", "2"));
  ASSERT_TRUE(write("other/x", "3"));
  auto renamed = executor_.block_on(source().rename({}, {root_ + "d/", root_ + "far/away/"}));
  ASSERT_TRUE(renamed) << renamed.error().to_string();
  EXPECT_EQ(keys(), (Names{"far/away/e/f", "far/away/g", "other/x"}));
  auto onto = executor_.block_on(source().rename({}, {root_ + "far/", root_ + "other/"}));
  EXPECT_FALSE(onto);
  EXPECT_EQ(content("other/x"), "3");
}

TEST_P(WritingContract, WhatIsRemovedIsGone) {
  RETURN_IF_ONLY_READ();
  Names all;
  for (int i = 0; i < 25; ++i) {
    all.push_back(fmt::format("r/{:02}", i));
    ASSERT_TRUE(write(all.back(), "x"));
  }
  ASSERT_TRUE(write("r/kept", "x"));
  all.push_back("r/never was");
  auto removed = remove(all);
  ASSERT_TRUE(removed) << removed.error().to_string();
  EXPECT_EQ(keys(), Names{"r/kept"});
  EXPECT_TRUE(remove(all)) << "what is not there is no failure";
  EXPECT_TRUE(remove({}));
}

TEST_P(WritingContract, DirectoriesAreMadeAndRemoved) {
  RETURN_IF_ONLY_READ();
  auto made = write("new/deep/", "");
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->kind, FileKind::kDirectory);
  EXPECT_TRUE(stat("new/deep/"));
  EXPECT_EQ(write("new/other/", "bytes").error().code(), StatusCode::kInvalidArgument);
  if (can().real_directories) {
    ASSERT_TRUE(write("new/deep/f", "x"));
    EXPECT_FALSE(remove({"new/deep/"})) << "it is not empty";
    EXPECT_FALSE(remove({"new/deep"})) << "it is not a file";
    EXPECT_EQ(content("new/deep/f"), "x");
    ASSERT_TRUE(remove({"new/deep/f"}));
  }
  const StatusCode again = write("new/deep/", "", {.absent = true}).error().code();
  EXPECT_TRUE(again == StatusCode::kExists || again == StatusCode::kUnsupported) << "it is there";
  auto removed = remove({"new/deep/"});
  ASSERT_TRUE(removed) << removed.error().to_string();
  EXPECT_EQ(stat("new/deep/").error().code(), StatusCode::kNotFound);
}

// A local file has all attributes, an object those that were written.
TEST_P(WritingContract, KeptAttributesComeBack) {
  RETURN_IF_ONLY_READ();
  const PosixAttributes wanted{
      .mode = S_IFREG | 0640,
      .uid = ::geteuid(),
      .gid = ::getegid(),
      .mtime = WallTime(std::chrono::seconds(1'500'000'000) + std::chrono::nanoseconds(500))};
  const WriteRequest whole{.key = root_ + "whole", .attributes = wanted};
  const WriteRequest parts{.key = root_ + "parts", .attributes = wanted};
  auto written = executor_.block_on(source().write({}, whole, bytes_of("text")));
  ASSERT_TRUE(written) << written.error().to_string();
  auto writer = PartWriter::begin(source(), parts);
  ASSERT_TRUE(writer) << writer.error().to_string();
  const std::string large = random_text(bucket_->takes_parts() ? 9'000'000 : 7'000'000, 1);
  ASSERT_TRUE(executor_.block_on(writer->append({}, bytes_of(large))));
  auto completed = executor_.block_on(writer->complete({}));
  ASSERT_TRUE(completed) << completed.error().to_string();
  for (const char* key : {"whole", "parts"}) {
    auto object = stat(key);
    ASSERT_TRUE(object) << key << ": " << object.error().to_string();
    if (!can().attributes) {
      EXPECT_EQ(object->attributes, nullptr) << key;
      continue;
    }
    ASSERT_NE(object->attributes, nullptr) << key;
    EXPECT_EQ(object->attributes->mode, wanted.mode) << key;
    EXPECT_EQ(object->attributes->uid, wanted.uid) << key;
    EXPECT_EQ(object->attributes->gid, wanted.gid) << key;
    EXPECT_EQ(object->attributes->mtime, wanted.mtime) << key;
  }
}

TEST_P(WritingContract, AttributesAreSetWithoutAWrite) {
  if (can().writes) ASSERT_TRUE(write("k", "text"));
  const AttributesRequest request{.key = root_ + "k", .attributes = {.mode = S_IFREG | 0711}};
  auto set = executor_.block_on(source().set_attributes({}, request));
  ASSERT_EQ(set.has_value(), can().sets_attributes);
  if (!set) return;
  auto now = stat("k");
  ASSERT_TRUE(now);
  EXPECT_EQ(now->version, set->version);
  ASSERT_NE(now->attributes, nullptr);
  EXPECT_EQ(now->attributes->mode, mode_t{S_IFREG | 0711});
  EXPECT_EQ(content("k"), "text");
}

TEST_P(WritingContract, AContextThatHasEndedChangesNothing) {
  RETURN_IF_ONLY_READ();
  std::stop_source stop;
  stop.request_stop();
  const Context cancelled = Context::background().with_cancel(stop.get_token());
  auto written = executor_.block_on(source().write(cancelled, {root_ + "f"}, bytes_of("x")));
  EXPECT_EQ(written.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(content("f"), "not_found");
}

INSTANTIATE_TEST_SUITE_P(Stores, WritingContract, ::testing::ValuesIn(testing::bucket_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace leat
