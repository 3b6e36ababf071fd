// SPDX-License-Identifier: Apache-2.0
// JobRig: jobs over a real catalog and fetcher, with bucket and page store in memory.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "catalog/catalog.h"
#include "fetch/fetcher_rig_test.h"
#include "jobs/job_table.h"
#include "jobs/local_job_cache.h"

namespace leat::testing {

// Counts concurrent reads, and fails those of one object.
class PeakSource : public MemorySource {
 public:
  using MemorySource::MemorySource;
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    if (request.key == broken_) co_return error(StatusCode::kPermissionDenied, "made to fail");
    uint64_t now = ++inside_;
    for (uint64_t seen = peak_; now > seen && !peak_.compare_exchange_weak(seen, now);) {
    }
    auto done = co_await MemorySource::read(context, std::move(request), into);
    --inside_;
    co_return done;
  }
  uint64_t peak() const { return peak_; }
  // Makes reads of one object fail; call before it is read.
  void break_reads_of(const std::string& key) { broken_ = key; }

 private:
  std::atomic<uint64_t> inside_ = 0, peak_ = 0;
  std::string broken_;
};

class JobRig : public ::testing::Test {
 protected:
  void start(JobTableOptions options = {}, bool with_store = true, FetcherOptions fetch = {}) {
    catalog_ = Catalog::create({}, sources_, executor_);
    fetcher_ = Fetcher::create(fetch, with_store ? &store_ : nullptr, sources_, executor_);
    cache_ = std::make_unique<LocalJobCache>(*fetcher_, store_, nullptr, executor_);
    jobs_ = std::make_unique<JobTable>(options, *catalog_, with_store ? cache_.get() : nullptr,
                                       executor_);
    mount("/data", source_);
  }
  void TearDown() override {
    source_->release_reads();
    store_.release_writes();
    if (jobs_) executor_.block_on(jobs_->stop());
    if (fetcher_) executor_.block_on(fetcher_->stop());
  }
  void mount(const std::string& path, SourcePtr source) {
    MountEntry entry;
    entry.path = path;
    entry.source.scheme = "memory";
    ASSERT_TRUE(catalog_->mount(std::move(entry), std::move(source)));
  }

  JobInfo run(JobKind kind, const std::string& path) {
    Result<JobInfo> started = jobs_->start(kind, path);
    EXPECT_TRUE(started) << started.error().to_string();
    return wait(started->id);
  }
  JobInfo wait(uint64_t id) {
    return executor_.block_on(jobs_->wait(Context::background(), id)).value();
  }
  Result<ListingPtr> list(const std::string& path) {
    return executor_.block_on(catalog_->list(Context::background(), path));
  }
  CatalogEntry lookup(const std::string& path) {
    return executor_.block_on(catalog_->lookup(Context::background(), path)).value();
  }
  bool cached(const std::string& path) {
    FileRefPtr ref = lookup(path).ref;
    return store_.missing(*ref, {0, ref->size}).empty();
  }

  Executor executor_{{.threads = 4}};
  std::shared_ptr<PeakSource> source_ = std::make_shared<PeakSource>();
  SourceTable sources_;
  MemoryPageStore store_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<LocalJobCache> cache_;
  std::unique_ptr<JobTable> jobs_;
};

}  // namespace leat::testing
