// SPDX-License-Identifier: Apache-2.0
// Random readers against a store that changes, fails and overwrites, a small page store that loses
// blocks, and very little memory. The bytes are those of the opened version, or the read returns an
// error with the reason.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>

#include "fetch/fetcher.h"
#include "fetch/fetcher_rig_test.h"

namespace leat {
namespace {

using testing::random_content;

struct Opened {
  FileRefPtr ref;
  std::shared_ptr<const std::string> content;
};

// The model's state: the present version of each object.
class Bucket {
 public:
  explicit Bucket(testing::MemorySource* source) : source_(source) {}

  void overwrite(size_t index, uint64_t size, uint64_t seed) {
    auto content = std::make_shared<const std::string>(random_content(size, seed));
    std::lock_guard lock(mutex_);
    std::string key = "object " + std::to_string(index);
    Version version = source_->put(key, *content);
    objects_[index] = {std::make_shared<FileRef>(FileRef::make(source_->id(), key, version, size)),
                       content};
  }
  Opened open(size_t index) {
    std::lock_guard lock(mutex_);
    return objects_[index];
  }

  static constexpr size_t kObjects = 5;

 private:
  testing::MemorySource* const source_;
  std::mutex mutex_;
  std::array<Opened, kObjects> objects_;
};

struct Model {
  Bucket* bucket;
  testing::MemorySource* source;
  testing::MemoryPageStore* store;
  Fetcher* fetcher;
  std::latch* done;
  std::atomic<uint64_t> reads_right = 0;
};

void check(const Opened& file, ByteRange range, const Result<Bytes>& bytes, Model* model) {
  if (bytes) {
    EXPECT_TRUE(bytes->to_string() == file.content->substr(range.offset, range.size))
        << file.ref->key << " " << range.offset << "+" << range.size;
    ++model->reads_right;
    return;
  }
  StatusCode code = bytes.error().code();
  EXPECT_TRUE(code == StatusCode::kVersionChanged || code == StatusCode::kUnavailable ||
              code == StatusCode::kTimedOut)
      << bytes.error().to_string();
}

void disturb(std::mt19937_64& random, Model* model) {
  switch (random() % 5) {
    case 0:
      model->bucket->overwrite(random() % Bucket::kObjects, random() % (2 * kMiB), random());
      break;
    case 1:
      model->source->fail_next(StatusCode::kUnavailable, 1);
      break;
    case 2:
      model->store->corrupt_reads(1);
      break;
    case 3:
      model->store->fail_reads(2);
      break;
    default:
      model->store->drop(model->bucket->open(random() % Bucket::kObjects).ref->id);
  }
}

Task<> wander(Model* model, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < 12; ++round) {
    Opened file = model->bucket->open(random() % Bucket::kObjects);
    if (file.ref->size == 0) continue;
    for (int step = 0; step < 8; ++step) {
      ByteRange range = ByteRange{random() % file.ref->size, random() % (512 * kKiB)};
      range = range.clamp(file.ref->size);
      uint64_t what = random() % 10;
      if (what == 0) {
        model->fetcher->prefetch(file.ref, range);
      } else if (what == 1) {
        disturb(random, model);
      } else if (what == 2) {
        auto loaded = co_await model->fetcher->ensure(Context::background(), file.ref, range);
        EXPECT_TRUE(loaded || loaded.error().code() != StatusCode::kInternal);
      } else if (what == 3) {
        if (auto hot = model->fetcher->try_read(*file.ref, range)) {
          check(file, range, *std::move(hot), model);
        }
      } else {
        Context context = Context::background();
        if (what == 4) context.deadline = Clock::now() + std::chrono::microseconds(random() % 300);
        Result<Bytes> bytes =
            what < 7 ? co_await model->fetcher->read(context, file.ref, range)
                     : co_await model->fetcher->read_at_random(context, file.ref, range);
        check(file, range, bytes, model);
      }
    }
  }
  model->done->count_down();
}

class FetchModelTest : public testing::FetcherRig {
 protected:
  void run(bool with_store, uint64_t packed_bytes_max, bool stop_in_flight) {
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    RecordProperty("seed", std::to_string(seed));
    start({.memory_bytes_max = 300 * kKiB, .requests_max = 5}, with_store, packed_bytes_max);
    store_->set_capacity(3 * kMiB);
    Bucket bucket(source_.get());
    for (size_t i = 0; i < Bucket::kObjects; ++i) bucket.overwrite(i, (i + 1) * 400'000, seed + i);
    constexpr int kWanderers = 12;
    std::latch done(kWanderers);
    Model model{&bucket, source_.get(), store_.get(), fetcher_.get(), &done};
    for (int i = 0; i < kWanderers; ++i) executor_.spawn(wander(&model, seed + 100 + i));
    done.wait();
    EXPECT_GT(model.reads_right, 0u);
    if (stop_in_flight) {
      for (size_t i = 0; i < Bucket::kObjects; ++i) {
        FileRefPtr ref = bucket.open(i).ref;
        for (uint64_t at = 0; at < ref->size; at += kBlockBytes) fetcher_->prefetch(ref, {at, 1});
      }
    }
    executor_.block_on(fetcher_->stop());
    EXPECT_LE(fetcher_->stats().memory_bytes, 300 * kKiB);
    EXPECT_EQ(fetcher_->stats().requests_in_flight, 0u);
  }
};

TEST_F(FetchModelTest, LargeObjectsWithACache) {
  run(true, 0, true);
}
TEST_F(FetchModelTest, PackedAndLargeObjectsWithACache) {
  run(true, kMiB, false);
}
TEST_F(FetchModelTest, WithoutACache) {
  run(false, 0, true);
}

}  // namespace
}  // namespace leat
