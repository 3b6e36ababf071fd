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

#include "vfs/error_memory.h"
#include "vfs/extended_attributes.h"
#include "vfs/file_system.h"
#include "vfs/node_table.h"
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
        parts_{.fetcher = fetcher,
               .store = store,
               .changed = [this](const Node& node,
                                 const Status& status) { version_gone(node, status); },
               .path = [this](const Node& node) { return path_of(node); },
               .windows = options.windows,
               .look_ahead_bytes = options.look_ahead_bytes,
               .read_around_bytes = options.read_around_bytes,
               .next = NextFiles::of(options.executor, catalog, fetcher, store,
                                     [this](const Node& node) { return path_of(node); }),
               .metrics = std::make_unique<FolderMetrics>(root_path_),
               .now = now_} {}

  std::vector<ReopenedFile> take_over() override;

  std::optional<Result<NodeAttributes>> try_lookup(NodeId parent, std::string_view name) override;
  Task<Result<NodeAttributes>> lookup(Context context, NodeId parent, std::string name) override;
  NodeAttributes adopt(NodeId parent, const CatalogEntry& entry) override;
  void forget(NodeId node, uint64_t count) override { nodes_.forget(node, count); }
  Clock::duration missing_age(NodeId parent, std::string_view name) override;

  std::optional<Result<NodeAttributes>> try_attributes(NodeId node) override;
  Task<Result<NodeAttributes>> attributes(Context context, NodeId node) override;

  Task<Result<std::shared_ptr<OpenDirectory>>> open_directory(Context context,
                                                              NodeId node) override;

  std::optional<Result<std::shared_ptr<OpenFile>>> try_open(NodeId node, int flags) override;
  Task<Result<std::shared_ptr<OpenFile>>> open(Context context, NodeId node, int flags) override;

  std::shared_ptr<OpenFile> believed_file(NodeId node) override;

  std::vector<std::string> attribute_names(NodeId node) override;
  Result<std::string> attribute_value(NodeId node, std::string_view name) override;

  Status refuse_change(NodeId node, std::string_view operation, std::string_view name) override;
  void note_error(NodeId node, std::string_view name, const Status& status,
                  const Caller& caller) override;
  void note_caller(NodeId node, const Caller& caller) override { errors_.note(node, caller); }
  std::vector<PathError> errors() const override { return errors_.all(); }

  std::string path_of(NodeId node, std::string_view name) const override;
  uint64_t nodes() const override { return nodes_.size(); }

  void catalog_changed(const CatalogChange& change) override;
  void compare_held(const std::string& path) override;
  void bytes_dropped(const FileIdSet& files) override;
  void retire(NodeId node) override { nodes_.retire(node); }
  void set_invalidation_listener(std::function<void(const Invalidation&)> listener) override;

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
  // Returns an error if `node` cannot be opened with `flags`, whatever the store says.
  Result<> may_open(const Node& node, int flags);
  // Result of an open: a version that may be opened.
  struct Opening {
    NodePtr node;
    FileRefPtr ref;
    uint64_t place;  // among its directory's names
    bool immutable;
  };
  std::optional<Opening> believed(NodeId id, int flags);
  Result<Opening> find_version(const NodePtr& node, const Result<CatalogEntry>& entry,
                               uint32_t as_of);
  // Returns true if the file itself may be available, which needs a wait.
  bool asks_for_file(const FileRef& ref) const;
  // `itself` may be null.
  std::shared_ptr<OpenFile> make_file(const Opening& opening, SourceFilePtr itself);
  // Returns the part of the changed name that the kernel may hold. That is the name, or the first
  // directory on its path without a node, which may be held as missing. Returns nothing if the name
  // is not below the root.
  std::optional<Invalidation> first_held(const CatalogChange& change) const;
  bool keeps_listing(NodeId directory);
  // Answers requested before this call describe the state before the change.
  void begin_change();
  void tell_of_belief(const NodePtr& node);
  bool is_as_known(const Node& node);
  void visit_mount(const std::string& mount_path,
                   const std::function<void(const std::vector<NodePtr>&)>& visitor);
  void listings_changed(const std::string& mount_path);
  void tell_of_root(const std::string& mount_path, bool patient);
  void tell_of_listing(NodeId directory, bool patient);
  void mount_changed(const std::string& mount_path);
  void tell(const Invalidation& name);
  void version_gone(const Node& node, const Status& status);
  std::optional<NodeView> view(NodeId node);

  const std::string root_path_;
  Catalog& catalog_;
  PageStore* const store_;
  const std::function<Clock::time_point()> now_;
  NodeTable nodes_;
  // Limit of errors; mostly some 500 KiB.
  ErrorMemory errors_{root_path_, 1000};
  const VersionedFileParts parts_;

  std::atomic<uint32_t> changes_ = kNoMoment + 1;  // reported changes below the root

  std::mutex listener_mutex_;
  std::shared_ptr<const std::function<void(const Invalidation&)>> listener_;
};

}  // namespace leat
