// SPDX-License-Identifier: Apache-2.0
// A catalog over buckets in memory, with a clock that only the test moves.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "runtime/executor.h"
#include "source/memory_source_test.h"

namespace leat::testing {

// A bucket with listings and stats that block until the test releases them.
class GatedSource : public MemorySource {
 public:
  using MemorySource::MemorySource;

  void hold() {
    std::lock_guard lock(gate_mutex_);
    gate_ = SharedPromise<bool>::make();
  }
  void release() { exchange_gate(nullptr)->set(true); }
  // Releases the requests blocked now; later ones block.
  void release_held() { exchange_gate(SharedPromise<bool>::make())->set(true); }
  // Number of requests that ever reached the gate.
  uint64_t arrived() const { return arrived_; }
  // Waits for `count` requests at the gate. The pause point of the tests.
  void await_arrivals(uint64_t count) const {
    for (uint64_t now = arrived_; now < count; now = arrived_) arrived_.wait(now);
  }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    Result<bool> open = co_await pass(context);
    if (!open) co_return Error(open.error());
    co_return co_await MemorySource::stat(context, std::move(request));
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    Result<bool> open = co_await pass(context);
    if (!open) co_return Error(open.error());
    co_return co_await MemorySource::list(context, std::move(request));
  }

 private:
  std::shared_ptr<SharedPromise<bool>> exchange_gate(std::shared_ptr<SharedPromise<bool>> next) {
    std::lock_guard lock(gate_mutex_);
    return std::exchange(gate_, std::move(next));
  }
  Task<Result<bool>> pass(Context context) {
    std::shared_ptr<SharedPromise<bool>> gate;
    {
      std::lock_guard lock(gate_mutex_);
      gate = gate_;
    }
    ++arrived_;
    arrived_.notify_all();
    if (!gate) co_return true;
    co_return co_await gate->wait(context, "a held request");
  }

  std::mutex gate_mutex_;
  std::shared_ptr<SharedPromise<bool>> gate_;
  std::atomic<uint64_t> arrived_ = 0;
};

// A store with real directories: those with a marker or an object below.
class DirectorySource : public MemorySource {
 public:
  DirectorySource() : MemorySource("directories") {
    capabilities_.conditional_read = true;
    capabilities_.real_directories = true;
  }
  const SourceCapabilities& capabilities() const override { return capabilities_; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    if (!request.key.ends_with('/'))
      co_return co_await MemorySource::stat(context, std::move(request));
    Result<SourceObject> marker = co_await MemorySource::stat(context, request);
    if (marker) co_return marker;
    ListRequest below{.prefix = request.key, .recursive = false, .token = {}};
    Result<ListPage> page = co_await MemorySource::list(context, std::move(below));
    if (!page || page->objects.empty()) co_return marker;
    co_return SourceObject{
        .key = request.key, .kind = FileKind::kDirectory, .size = 0, .version = {}, .mtime = {}};
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    if (!request.prefix.empty()) {
      Result<SourceObject> there = co_await stat(context, {request.prefix});
      if (!there) co_return Error(there.error());
    }
    co_return co_await MemorySource::list(context, std::move(request));
  }

 private:
  SourceCapabilities capabilities_;
};

class CatalogTest : public ::testing::Test {
 protected:
  // Lookups wait for listings, however long a test holds those.
  CatalogTest() { make_catalog({.first_page_wait = std::chrono::hours(1)}); }

  void make_catalog(CatalogOptions options) {
    options.now = [this] { return Clock::time_point(Clock::duration(now_.load())); };
    catalog_ = nullptr;
    catalog_ = Catalog::create(std::move(options), sources_, executor_);
    catalog_->set_change_listener([this](const CatalogChange& change) {
      std::lock_guard lock(changes_mutex_);
      changes_.push_back(change);
    });
  }

  void mount(std::string path, std::shared_ptr<MemorySource> source, std::string prefix = "",
             std::string freshness = "max-age=60s") {
    MountEntry entry;
    entry.path = std::move(path);
    entry.source.scheme = "memory";
    entry.source.bucket = source->name();
    entry.source.prefix = std::move(prefix);
    entry.policy.freshness = Freshness::parse(freshness).value();
    entry.policy.freshness.negative_ttl = std::chrono::seconds(5);
    ASSERT_TRUE(catalog_->mount(std::move(entry), std::move(source)));
  }

  Result<CatalogEntry> lookup(std::string path) {
    return executor_.block_on(catalog_->lookup(Context::background(), std::move(path)));
  }
  Result<CatalogEntry> lookup_for_open(std::string path) {
    return executor_.block_on(catalog_->lookup_for_open(Context::background(), std::move(path)));
  }
  Result<ListingPtr> list(std::string path) {
    return executor_.block_on(catalog_->list(Context::background(), std::move(path)));
  }
  // Directories end in '/'. Without a listing, returns the error's name in angle brackets.
  std::vector<std::string> names(std::string path) {
    Result<ListingPtr> listing = list(std::move(path));
    if (!listing) return {"<" + std::string(to_string(listing.error().code())) + ">"};
    std::vector<std::string> all;
    for (const CatalogEntry& entry : entries(**listing)) {
      all.push_back(entry.info.name + (entry.info.is_directory() ? "/" : ""));
    }
    return all;
  }
  static std::vector<CatalogEntry> entries(const Listing& listing) {
    std::vector<CatalogEntry> all;
    for (Listing::Cursor cursor = listing.from(0); cursor.next();) all.push_back(cursor.entry());
    return all;
  }
  StatusCode code_of(std::string path) {
    Result<CatalogEntry> entry = lookup(std::move(path));
    return entry ? StatusCode{} : entry.error().code();
  }

  void pass(std::chrono::nanoseconds time) { now_ += time.count(); }

  // Returns the changes since the last call: "parent:name" with a '-' before a removed name,
  // "mount:*" for its listings, "mount:**" for all of it.
  std::vector<std::string> take_changes() {
    std::lock_guard lock(changes_mutex_);
    std::vector<std::string> all;
    for (const CatalogChange& change : changes_) {
      const std::string name = change.whole ? "**" : change.listings ? "*" : change.name;
      all.push_back((change.removed ? "-" : "") + change.parent + ":" + name);
    }
    changes_.clear();
    std::ranges::sort(all);
    return all;
  }
  // Waits until the executor is idle: changes are sent after the answers, so all have been sent
  // then. When all threads are at the barrier, earlier posts have run; their own posts run by the
  // next round. Call only from the test's own thread.
  void settle() {
    constexpr int kRounds = 8;
    const auto threads = executor_.threads();
    const auto all = std::make_shared<std::barrier<>>(threads + 1);  // they leave it later
    for (int round = 0; round < kRounds; ++round) {
      for (unsigned i = 0; i < threads; ++i) executor_.post([all] { all->arrive_and_wait(); });
      all->arrive_and_wait();
    }
  }

  std::shared_ptr<GatedSource> bucket_ = std::make_shared<GatedSource>();
  std::atomic<int64_t> now_ = 1'000'000'000'000;
  SourceTable sources_;
  std::mutex changes_mutex_;
  std::vector<CatalogChange> changes_;
  // Declared after the objects that its tasks use, so that it ends first.
  Executor executor_{{.threads = 3}};
  std::unique_ptr<Catalog> catalog_;
};

}  // namespace leat::testing
