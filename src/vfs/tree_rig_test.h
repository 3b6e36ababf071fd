// SPDX-License-Identifier: Apache-2.0
// TreeRig: a bucket in memory at /data with all layers up to a FileSystem, and a clock that the
// test moves. For the tests of vfs and of the frontends.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "source/memory_source_test.h"
#include "telemetry/metric_values_test.h"
#include "vfs/file_system.h"
#include "vfs/inspection_file_system.h"
#include "vfs/memory_page_store_test.h"

namespace leat::testing {

struct TreeRigOptions {
  Freshness freshness{};
  bool cached = true;
  FetcherOptions fetch{};
  std::string root = "/data";  // of the file system; the bucket is at /data
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t umask = 022;
  MemfdRecordTable* records = nullptr;  // of the file system
  // Content of `.leat` in its root; null: there is none.
  std::function<std::vector<VirtualFile>(const FileSystem&)> inspection{};
  InspectionOptions inspection_options{};  // except for the clock
  bool prefetch_next_files = false;        // with prefetch from file to file
  EpochListener* epochs = nullptr;         // of the file system
  unsigned threads = 0;                    // of the executor (ExecutorOptions)
  WriteMode write = WriteMode::kThrough;
  std::vector<Policy::PathOverride> paths{};
  std::shared_ptr<MemorySource> source{};  // the bucket; null: one without faults
  // Replaces the file system, for instance by one that takes writes.
  std::function<std::unique_ptr<FileSystem>(std::unique_ptr<FileSystem>, Catalog&, PageStore*,
                                            Executor&)>
      decorate{};
};

class TreeRig {
 public:
  explicit TreeRig(TreeRigOptions options = {}) : executor({.threads = options.threads}) {
    if (options.source) source = options.source;
    sources.add(source);
    catalog = Catalog::create({.now = clock()}, sources, executor);
    if (options.cached) store = std::make_unique<MemoryPageStore>();
    fetcher = Fetcher::create(options.fetch, store.get(), sources, executor);
    files = FileSystem::create(options.root, *catalog, *fetcher, store.get(),
                               {.now = clock(),
                                .records = options.records,
                                .executor = options.prefetch_next_files ? &executor : nullptr,
                                .epochs = options.epochs});
    if (options.decorate) {
      files = options.decorate(std::move(files), *catalog, store.get(), executor);
    }
    if (options.inspection) {
      std::vector<VirtualFile> inspection = options.inspection(*files);
      options.inspection_options.now = clock();
      files = with_inspection(std::move(files), std::move(inspection), options.inspection_options);
    }
    catalog->set_change_listener(
        [this](const CatalogChange& change) { files->catalog_changed(change); });
    MountEntry entry{
        .path = "/data",
        .source = {.scheme = "memory", .bucket = "bucket", .prefix = "", .options = {}},
        .policy = {}};
    entry.policy.freshness = options.freshness;
    entry.policy.uid = options.uid;
    entry.policy.gid = options.gid;
    entry.policy.umask = options.umask;
    entry.policy.write = options.write;
    entry.policy.paths = options.paths;
    LEAT_CHECK(catalog->mount(std::move(entry), source).has_value());
  }
  ~TreeRig() {
    executor.block_on(fetcher->stop());
    executor.block_on(catalog->stop());  // a notification may be on its way to `files`
    catalog->set_change_listener({});
  }

  void advance(Clock::duration by) { moved_->fetch_add(by.count()); }

  Result<NodeAttributes> lookup(NodeId parent, std::string name) {
    if (auto found = files->try_lookup(parent, name)) return *found;
    return executor.block_on(files->lookup(Context::background(), parent, std::move(name)));
  }
  NodeId node(NodeId parent, std::string name) { return lookup(parent, std::move(name))->node; }
  Result<NodeAttributes> attributes(NodeId node) {
    if (auto found = files->try_attributes(node)) return *found;
    return executor.block_on(files->attributes(Context::background(), node));
  }
  Result<std::shared_ptr<OpenFile>> open(NodeId node, int flags = O_RDONLY) {
    if (auto opened = files->try_open(node, flags)) return *opened;
    return executor.block_on(files->open(Context::background(), node, flags));
  }
  Result<std::shared_ptr<OpenDirectory>> open_directory(NodeId node) {
    return executor.block_on(files->open_directory(Context::background(), node));
  }
  Result<std::string> read(OpenFile& file, uint64_t offset, uint64_t size,
                           Context context = Context::background()) {
    if (auto bytes = file.try_read(offset, size)) return bytes->to_string();
    Result<Bytes> bytes = executor.block_on(file.read(context, offset, size));
    if (!bytes) return error(bytes.error());
    return bytes->to_string();
  }
  // Loads the whole of a file into the cache.
  Result<uint64_t> load(const FileRefPtr& ref) {
    return executor.block_on(fetcher->ensure(Context::background(), ref, {0, ref->size}));
  }

  Executor executor;
  SourceTable sources;
  std::shared_ptr<MemorySource> source = std::make_shared<MemorySource>();
  std::unique_ptr<MemoryPageStore> store;
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<Fetcher> fetcher;
  std::unique_ptr<FileSystem> files;

 private:
  std::function<Clock::time_point()> clock() const {
    return [at = moved_, start = start_] { return start + Clock::duration(at->load()); };
  }

  std::shared_ptr<std::atomic<Clock::rep>> moved_ = std::make_shared<std::atomic<Clock::rep>>(0);
  const Clock::time_point start_ = Clock::now();
};

// Bytes that differ from place to place.
inline std::string pattern(size_t size, uint64_t seed) {
  std::string text(size, '\0');
  uint64_t state = seed * 2 + 1;
  for (char& c : text) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

}  // namespace leat::testing
