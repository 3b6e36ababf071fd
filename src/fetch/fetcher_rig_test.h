// SPDX-License-Identifier: Apache-2.0
// FetcherRig: a fetcher between a MemorySource and a MemoryPageStore, with helpers for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fetch/fetcher.h"
#include "fetch/memory_page_store_test.h"
#include "source/memory_source_test.h"
#include "telemetry/metric_values_test.h"

namespace leat::testing {

inline std::string random_content(uint64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string content(size, '\0');
  for (uint64_t at = 0; at < size; at += 8) {
    uint64_t word = random();
    std::memcpy(content.data() + at, &word, std::min<uint64_t>(8, size - at));
  }
  return content;
}

// Another thread makes the condition true soon; the test's timeout bounds the wait.
inline void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

// One read that runs concurrently with the test.
struct PendingRead {
  Result<Bytes> bytes = error(StatusCode::kInternal, "not ended");
  std::latch done{1};
};

inline Task<> run_read(Fetcher* fetcher, Context context, FileRefPtr ref, ByteRange range,
                       std::shared_ptr<PendingRead> pending) {
  pending->bytes = co_await fetcher->read(context, ref, range);
  pending->done.count_down();
}

// One load that runs concurrently with the test.
struct PendingLoad {
  Result<uint64_t> fetched = error(StatusCode::kInternal, "not ended");
  std::latch done{1};
};

inline Task<> run_load(Fetcher* fetcher, FileRefPtr ref, ByteRange range,
                       std::shared_ptr<PendingLoad> pending) {
  pending->fetched = co_await fetcher->ensure(Context::background(), ref, range);
  pending->done.count_down();
}

class FetcherRig : public ::testing::Test {
 protected:
  explicit FetcherRig(unsigned threads = 4) : executor_({.threads = threads}) {}

  void start(FetcherOptions options = {}, bool with_store = true, uint64_t packed_bytes_max = 0) {
    store_ = std::make_unique<MemoryPageStore>(packed_bytes_max);
    sources_.add(source_);
    fetcher_ = Fetcher::create(options, with_store ? store_.get() : nullptr, sources_, executor_);
  }
  void TearDown() override {
    source_->release_reads();
    if (store_) store_->release_writes();
    if (fetcher_) executor_.block_on(fetcher_->stop());
  }

  FileRefPtr put(const std::string& key, const std::string& content) {
    Version version = source_->put(key, content);
    return std::make_shared<FileRef>(FileRef::make(source_->id(), key, version, content.size()));
  }
  Result<Bytes> read(const FileRefPtr& ref, ByteRange range) {
    return executor_.block_on(fetcher_->read(Context::background(), ref, range));
  }
  std::string text(const FileRefPtr& ref, ByteRange range) {
    Result<Bytes> bytes = read(ref, range);
    return bytes ? bytes->to_string() : bytes.error().to_string();
  }
  Result<uint64_t> ensure(const FileRefPtr& ref, ByteRange range) {
    return executor_.block_on(fetcher_->ensure(Context::background(), ref, range));
  }
  std::shared_ptr<PendingRead> spawn_read(const FileRefPtr& ref, ByteRange range,
                                          Context context = {}) {
    auto pending = std::make_shared<PendingRead>();
    executor_.spawn(run_read(fetcher_.get(), context, ref, range, pending));
    return pending;
  }
  std::shared_ptr<PendingLoad> spawn_load(const FileRefPtr& ref, ByteRange range) {
    auto pending = std::make_shared<PendingLoad>();
    executor_.spawn(run_load(fetcher_.get(), ref, range, pending));
    return pending;
  }
  // Waits until prefetch and cache writes have ended.
  void wait_cached(const FileRefPtr& ref, ByteRange range) {
    wait_until([&] { return store_->missing(*ref, range).empty(); });
  }

  Executor executor_;
  std::shared_ptr<MemorySource> source_ = std::make_shared<MemorySource>();
  SourceTable sources_;
  std::unique_ptr<MemoryPageStore> store_;
  std::unique_ptr<Fetcher> fetcher_;
};

}  // namespace leat::testing
