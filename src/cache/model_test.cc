// SPDX-License-Identifier: Apache-2.0
// Random operations checked against a std::map. The store may have less than the map (it evicts),
// never more or different bytes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "cache/store_fixture_test.h"

namespace leat {
namespace {

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {
    for (int i = 0; i < 30; ++i) {
      uint64_t size = i % 2 == 0 ? random_() % (128 * kKiB) : random_() % (20 * kBlockBytes);
      objects_.push_back(object(fmt::format("object {}", i), size));
    }
  }

  void run(int steps, uint64_t capacity_bytes) {
    PageStoreOptions options = TestStore::options(directory_->path());
    options.capacity_bytes = capacity_bytes;
    may_forget_ = capacity_bytes < 32 * kMiB;
    open(options);
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      switch (random_() % 40) {
        case 0:
          restart_clean(options);
          break;
        case 1:
          restart_killed(options);
          break;
        case 2:
          EXPECT_TRUE(store_->flush());
          unflushed_.clear();
          break;
        case 3:
        case 4:
          drop(pick());
          break;
        case 5:
          hand_to_kernel(pick());
          break;
        default:
          random_() % 2 ? write(pick()) : read(pick());
      }
      EXPECT_LE((*store_)->stats().used_bytes, capacity_bytes);
    }
    for (const auto& ref : objects_) read(ref);
    store_->close();
  }

 private:
  const FileRefPtr& pick() { return objects_[random_() % objects_.size()]; }
  ByteRange some_range(const FileRefPtr& ref) {
    uint64_t offset = ref->size == 0 ? 0 : random_() % ref->size;
    return ByteRange{offset, random_() % (4 * kBlockBytes)}.clamp(ref->size);
  }

  void open(const PageStoreOptions& options) {
    store_ = std::make_unique<TestStore>(options);
    ASSERT_TRUE(store_->ok()) << store_->failure().to_string();
  }
  void restart_clean(const PageStoreOptions& options) {
    store_->close();
    unflushed_.clear();
    open(options);
  }
  void restart_killed(PageStoreOptions& options) {
    auto copy = crash_copy(directory_->path());
    store_ = nullptr;
    directory_ = std::move(copy);
    options.directory = directory_->path();
    // The removal of a file, or a tombstone, may not have reached the disk.
    for (const FileId& id : dropped_) drops_in_doubt_.insert(id);
    // Small objects of the last second may be missing as well.
    may_be_lost_.merge(unflushed_);
    unflushed_.clear();
    open(options);
  }

  void write(const FileRefPtr& ref) {
    ByteRange range = some_range(ref).widen(kBlockBytes, ref->size);
    if ((*store_)->packed(*ref)) range = {0, ref->size};
    Result<> kept = store_->write_range(ref, range);
    if (!kept) {
      EXPECT_EQ(kept.error().code(), StatusCode::kNoSpace) << kept.error().to_string();
      EXPECT_TRUE(may_forget_);
      return;
    }
    for (uint64_t at = range.offset; at < range.end(); at += kBlockBytes)
      written_[ref->id].insert(at);
    dropped_.erase(ref->id);
    may_be_lost_.erase(ref->id);
    if ((*store_)->packed(*ref)) unflushed_.insert(ref->id);
  }
  void drop(const FileRefPtr& ref) {
    (*store_)->drop(ref->id);
    written_.erase(ref->id);
    dropped_.insert(ref->id);
  }
  void read(const FileRefPtr& ref) {
    ByteRange range = some_range(ref);
    bool known = true;
    // An empty range needs no bytes, wherever it is.
    ByteRange wide = range.empty() ? range : range.widen(kBlockBytes, ref->size);
    for (uint64_t at = wide.offset; at < wide.end(); at += kBlockBytes) {
      known = known && written_[ref->id].contains(at);
    }
    bool missing = !(*store_)->missing(*ref, range).empty();
    bool failed = store_->read_fails(ref, range).has_value();
    if (!may_forget_) EXPECT_EQ(failed, missing) << ref->key;
    if (known && !may_forget_ && !may_be_lost_.contains(ref->id)) EXPECT_FALSE(failed) << ref->key;
    if (!known && !drops_in_doubt_.contains(ref->id)) {
      EXPECT_TRUE(failed) << ref->key << " " << range.offset << " " << range.size;
    }
    if (auto hot = (*store_)->try_read(*ref, range)) {
      EXPECT_TRUE(same(*hot, content(*ref, range)));
    }
  }
  void hand_to_kernel(const FileRefPtr& ref) {
    auto backing = (*store_)->backing(*ref);
    if (backing == nullptr) return;
    std::string bytes(ref->size, '\0');
    EXPECT_EQ(::pread(backing->fd(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(bytes, content(ref).to_string());
  }

  std::mt19937 random_;
  std::unique_ptr<TempDirectory> directory_ = std::make_unique<TempDirectory>();
  std::unique_ptr<TestStore> store_;
  std::vector<FileRefPtr> objects_;
  std::map<FileId, std::set<uint64_t>> written_;
  std::set<FileId> dropped_, drops_in_doubt_, unflushed_, may_be_lost_;
  bool may_forget_ = false;
};

void run_model(uint64_t capacity_bytes) {
  const char* given = std::getenv("LEAT_TEST_SEED");
  unsigned seed = given ? static_cast<unsigned>(std::stoul(given)) : std::random_device()();
  std::cout << "seed: LEAT_TEST_SEED=" << seed << std::endl;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Model(seed).run(600, capacity_bytes);
}

TEST(PageStoreModel, WithRoomForEverything) {
  run_model(64 * kMiB);
}
TEST(PageStoreModel, WithTooLittleRoom) {
  run_model(6 * kMiB);
}

}  // namespace
}  // namespace leat
