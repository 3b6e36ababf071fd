// SPDX-License-Identifier: Apache-2.0
// Tests files that their mount does not keep in the page store (CacheUse).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "fetch/fetcher_rig_test.h"
#include "source/file/file_source.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::random_content;

class UncachedTest : public testing::FetcherRig {
 protected:
  UncachedTest() : path_(fs::temp_directory_path() / ("leat-fetch-" + Id128::random().to_hex())) {}
  ~UncachedTest() override { fs::remove(path_); }

  FileRefPtr as(const FileRefPtr& ref, CacheUse use) {
    return std::make_shared<FileRef>(
        FileRef::make(ref->store, ref->key, ref->version, ref->size, use));
  }
  // As the catalog creates it for a local file.
  FileRefPtr write_local(const std::string& content) {
    std::ofstream(path_) << content;
    sources_.add(files_);
    SourceObject object =
        executor_.block_on(files_->stat(Context::background(), {path_.string().substr(1)})).value();
    return std::make_shared<FileRef>(FileRef::make(files_->id(), object.key, object.version,
                                                   object.size,
                                                   cache_use(CacheMode::kAuto, object.local)));
  }

  const fs::path path_;
  std::shared_ptr<FileSource> files_ = std::make_shared<FileSource>();
};

TEST_F(UncachedTest, LocalFileIsReadInPlaceAndNotCached) {
  start();
  const std::string content = random_content(3 * kBlockBytes + 5, 1);
  FileRefPtr ref = write_local(content);
  ASSERT_EQ(ref->cache, CacheUse::kBypass);
  EXPECT_FALSE(fetcher_->try_read(*ref, {0, 10}));
  for (ByteRange range : {ByteRange{0, content.size()}, ByteRange{7, 3}, ByteRange{7, 3}}) {
    EXPECT_EQ(text(ref, range), content.substr(range.offset, range.size));
  }
  EXPECT_TRUE(fetcher_->prefetch(ref, {0, content.size()}));
  EXPECT_EQ(fetcher_->stats().files, 0u);
  EXPECT_EQ(fetcher_->stats().memory_bytes, 0u);
  EXPECT_EQ(store_->cached_bytes(*ref), 0u);
  Result<uint64_t> loaded = ensure(ref, {0, 10});
  EXPECT_EQ(loaded.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(loaded.error().to_string(), HasSubstr("cache=always"));
}

TEST_F(UncachedTest, LocalFileStaysOpenUntilVersionChanges) {
  start();
  FileRefPtr ref = write_local("0123456789");
  Result<SourceFilePtr> file = executor_.block_on(fetcher_->open_file({}, ref));
  ASSERT_TRUE(file && *file != nullptr);
  std::string into(4, '?');
  EXPECT_TRUE(executor_.block_on((*file)->read({}, 3, std::as_writable_bytes(std::span(into)))));
  EXPECT_EQ(into, "3456");
  fs::remove(path_);
  EXPECT_EQ(executor_.block_on(fetcher_->open_file({}, ref)).error().code(),
            StatusCode::kVersionChanged);
  EXPECT_EQ(read(ref, {0, 1}).error().code(), StatusCode::kVersionChanged);
}

TEST_F(UncachedTest, CachedFileIsNotPassed) {
  start();
  FileRefPtr ref = as(write_local("0123456789"), CacheUse::kDisk);
  EXPECT_EQ(executor_.block_on(fetcher_->open_file({}, ref)).value(), nullptr);
  EXPECT_EQ(text(ref, {2, 3}), "234");
  wait_cached(ref, {0, 10});
}

TEST_F(UncachedTest, MemoryOnlyFileIsFetchedOnceNotStored) {
  start();
  const std::string content = random_content(2 * kBlockBytes, 2);
  FileRefPtr ref = as(put("a", content), CacheUse::kMemory);
  EXPECT_EQ(text(ref, {0, 10}), content.substr(0, 10));
  EXPECT_EQ(text(ref, {20, 10}), content.substr(20, 10));
  EXPECT_EQ(source_->reads(), 1u);
  EXPECT_EQ(store_->cached_bytes(*ref), 0u);
  EXPECT_EQ(ensure(ref, {0, 10}).error().code(), StatusCode::kUnsupported);
}

TEST_F(UncachedTest, LoadStoresBytesOfUncachedMount) {
  start();
  const std::string content = random_content(kBlockBytes, 3);
  FileRefPtr in_memory = as(put("a", content), CacheUse::kMemory);
  source_->block_reads();
  auto reader = spawn_read(in_memory, {0, 10});
  testing::wait_until([&] { return source_->blocked_reads() == 1; });
  // Its load joins the reader's request, which does not write to the page store.
  FileRefPtr cached_ref = as(in_memory, CacheUse::kDisk);
  auto loaded = std::make_shared<std::latch>(1);
  executor_.spawn([](Fetcher* fetcher, FileRefPtr ref, std::shared_ptr<std::latch> done) -> Task<> {
    EXPECT_TRUE(co_await fetcher->ensure(Context::background(), ref, {0, ref->size}));
    done->count_down();
  }(fetcher_.get(), cached_ref, loaded));
  source_->release_reads();
  reader->done.wait();
  loaded->wait();
  EXPECT_EQ(store_->cached_bytes(*cached_ref), kBlockBytes);
}

}  // namespace
}  // namespace leat
