// SPDX-License-Identifier: Apache-2.0
// CatalogFileSystem: the only FileSystem: names of a Catalog, bytes of a Fetcher. Invariants and
// locks: README.md.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vfs/extended_attributes.h"
#include "vfs/file_system.h"
#include "vfs/node_table.h"
#include "vfs/recent_errors.h"
#include "vfs/versioned_file.h"

namespace leat {

class CatalogFileSystem : public FileSystem {
 public:
  CatalogFileSystem(std::string root, Catalog& catalog, Fetcher& fetcher, PageStore* store,
                    FileSystemOptions options)
      : root_path_(std::move(root)),
        catalog_(catalog),
        store_(store),
        now_(std::move(options.now)),
        nodes_(options.records),
        deps_{
            .fetcher = fetcher,
            .store = store,
            .changed = [this](const Node& node,
                              const Status& status) { on_version_gone(node, status); },
            .path = [this](const Node& node) { return path_of(node); },
            .windows = options.windows,
            .prefetch_window_bytes = options.prefetch_window_bytes,
            .fault_around_bytes = options.fault_around_bytes,
            .next = NextFilePrefetcher::create(options.executor, catalog, fetcher, store,
                                               [this](const Node& node) { return path_of(node); }),
            .epochs = options.epochs == nullptr
                          ? nullptr
                          : std::make_unique<EpochWatcher>(
                                *options.epochs, catalog,
                                [this](const Node& node) { return path_of(node); }, now_),
            .metrics = std::make_unique<MountMetrics>(root_path_),
            .now = now_} {}

  std::vector<ReopenedFile> take_over() override;

  std::optional<Result<NodeAttributes>> try_lookup(NodeId parent, std::string_view name) override;
  Task<Result<NodeAttributes>> lookup(Context context, NodeId parent, std::string name) override;
  NodeAttributes lookup_from_listing(NodeId parent, const CatalogEntry& entry) override;
  void forget(NodeId node, uint64_t count) override { nodes_.forget(node, count); }
  Clock::duration negative_ttl(NodeId parent, std::string_view name) override;

  std::optional<Result<NodeAttributes>> try_attributes(NodeId node) override;
  Task<Result<NodeAttributes>> attributes(Context context, NodeId node) override;

  Task<Result<std::shared_ptr<OpenDirectory>>> open_directory(Context context,
                                                              NodeId node) override;

  std::optional<Result<std::shared_ptr<OpenFile>>> try_open(NodeId node, int flags) override;
  Task<Result<std::shared_ptr<OpenFile>>> open(Context context, NodeId node, int flags) override;

  std::shared_ptr<OpenFile> open_cached_version(NodeId node) override;

  FileRefPtr version_of(NodeId node) const override {
    const NodePtr held = nodes_.find(node);
    return held ? held->ref : nullptr;
  }

  std::vector<std::string> attribute_names(NodeId node) override;
  Result<std::string> attribute_value(NodeId node, std::string_view name) override;

  Status reject_change(NodeId node, std::string_view operation, std::string_view name) override;
  void record_error(NodeId node, std::string_view name, const Status& status,
                    const Caller& caller) override;
  void record_caller(NodeId node, const Caller& caller) override {
    errors_.record_caller(node, caller);
  }
  std::vector<PathError> errors() const override { return errors_.all(); }

  std::string path_of(NodeId node, std::string_view name) const override;
  uint64_t nodes() const override { return nodes_.size(); }

  void catalog_changed(const CatalogChange& change) override;
  void revalidate_held(const std::string& path) override;
  void bytes_dropped(const FileIdSet& files) override;
  void retire(NodeId node) override { nodes_.retire(node); }
  void set_invalidation_listener(std::function<void(const KernelInvalidation&)> listener) override;

 private:
  std::string path_of(const Node& node) const;
  std::string child_path(const Node& parent, std::string_view name) const;
  // Returns the freshness of the node's path, or of `name` in it, by the present policy of the
  // mount.
  Freshness freshness_of(const Node& node, const MountPtr& mount, std::string_view name = {}) const;
  // Returns zero if the mount has changed since.
  Clock::duration valid_for(Clock::time_point fresh_until, const MountPtr& mount) const;
  NodeAttributes describe(const Node& node, const NodeFacts& facts) const;
  NodeAttributes describe_new(const NodePtr& node, const CatalogEntry& entry) const;
  // Returns an error if `node` cannot be opened with `flags`, whatever the store returns.
  Result<> may_open(const Node& node, int flags);
  // Result of an open: a version that may be opened.
  struct Opening {
    NodePtr node;
    FileRefPtr ref;
    uint64_t place;  // among its directory's names
    bool immutable;
  };
  std::optional<Opening> fresh_version(NodeId id, int flags);
  Result<Opening> find_version(const NodePtr& node, const Result<CatalogEntry>& entry,
                               uint32_t as_of);
  // Returns true if the file itself may be available, which needs a wait.
  bool may_have_local_file(const FileRef& ref) const;
  // `local_file` may be null.
  std::shared_ptr<OpenFile> make_file(const Opening& opening, SourceFilePtr local_file);
  // Returns the part of the changed name that the kernel may hold. That is the name, or the first
  // directory on its path without a node, which may be held as missing. Returns nothing if the name
  // is not below the root.
  std::optional<KernelInvalidation> first_held(const CatalogChange& change) const;
  bool kernel_keeps_listing(NodeId directory);
  // Answers requested before this call describe the state before the change.
  void begin_change();
  void expire_in_kernel(const NodePtr& node);
  bool matches_catalog(const Node& node);
  void visit_mount(const std::string& mount_path,
                   const std::function<void(const std::vector<NodePtr>&)>& visitor);
  void listings_changed(const std::string& mount_path);
  void invalidate_root(const std::string& mount_path, bool may_block);
  void invalidate_listing(NodeId directory, bool may_block);
  void mount_changed(const std::string& mount_path);
  void notify(const KernelInvalidation& name);
  void on_version_gone(const Node& node, const Status& status);
  std::optional<NodeView> view(NodeId node);

  const std::string root_path_;
  Catalog& catalog_;
  PageStore* const store_;
  const std::function<Clock::time_point()> now_;
  NodeTable nodes_;
  // Limit of errors; mostly some 500 KiB.
  RecentErrors errors_{root_path_, 1000};
  const FileDeps deps_;

  std::atomic<uint32_t> changes_ = kAsOfUnknown + 1;  // reported changes below the root

  std::mutex listener_mutex_;
  std::shared_ptr<const std::function<void(const KernelInvalidation&)>> listener_;
};

}  // namespace leat
