// SPDX-License-Identifier: Apache-2.0
// A short answer to a READ makes the kernel cut the file off there. So a file answers all bytes or
// an error.
#include <gtest/gtest.h>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using testing::pattern;
using testing::TreeRig;

// Returns at most `bytes_max` bytes of each read, and then `failure`.
class ShortFetcher : public Fetcher {
 public:
  std::string content;
  uint64_t bytes_max = UINT64_MAX;
  bool in_place = false;

  std::optional<Bytes> try_read(const FileRef&, ByteRange range) override {
    return in_place ? std::optional(bytes_of(range)) : std::nullopt;
  }
  Task<Result<Bytes>> read(Context, FileRefPtr, ByteRange range) override {
    co_return bytes_of(range);
  }
  StreamedReadPtr stream(FileRefPtr, ByteRange) override { return nullptr; }
  bool prefetch(FileRefPtr, ByteRange) override { return true; }
  Task<Result<uint64_t>> ensure(Context, FileRefPtr, ByteRange) override { co_return 0; }
  Task<> stop() override { co_return; }
  FetcherStats stats() const override { return {}; }

 private:
  Bytes bytes_of(ByteRange range) const {
    return Bytes::of(content.substr(range.offset, std::min(range.size, bytes_max)));
  }
};

TEST(ShortReads, FewerBytesThanRequestedAreAnError) {
  TreeRig rig;
  ShortFetcher fetcher;
  fetcher.content = pattern(300'000, 1);
  rig.source->put("file", fetcher.content);
  const auto files = FileSystem::create("/data", *rig.catalog, fetcher, nullptr, {});
  const auto found = rig.executor.block_on(files->lookup({}, kRootNode, "file"));
  ASSERT_TRUE(found) << found.error().to_string();
  const auto file = rig.executor.block_on(files->open({}, found->node, O_RDONLY));
  ASSERT_TRUE(file) << file.error().to_string();
  for (const bool in_place : {false, true}) {
    fetcher.in_place = in_place;
    fetcher.bytes_max = UINT64_MAX;
    EXPECT_EQ(rig.read(**file, 250'000, 100'000), fetcher.content.substr(250'000));
    for (const uint64_t bytes_max : {uint64_t{0}, uint64_t{4096}}) {
      fetcher.bytes_max = bytes_max;
      const auto got = rig.read(**file, 100'000, 100'000);
      ASSERT_FALSE(got) << got->size();
      EXPECT_EQ(got.error().code(), StatusCode::kInternal);
      EXPECT_EQ(rig.read(**file, 300'000, 10), "") << "its end is its end";
    }
  }
}

// The cached part of a read does not become a short read when the rest no longer exists.
TEST(ShortReads, RemovedVersionFailsTheWholeRead) {
  TreeRig rig({.fetch = {.unread_ttl = {}}});
  const std::string old = pattern(4'000'000, 1);
  rig.source->put("file", old);
  const auto file = rig.open(rig.node(kRootNode, "file"));
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_EQ(rig.read(**file, 0, 65'536), old.substr(0, 65'536));
  rig.source->put("file", pattern(1000, 2));
  const auto across = rig.read(**file, 60'000, 3'500'000);
  ASSERT_FALSE(across) << across->size();
  EXPECT_EQ(across.error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(rig.attributes((*file)->node())->size, old.size());
}

}  // namespace
}  // namespace leat
