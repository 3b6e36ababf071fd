// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: a FileSystem that takes writes, over one that does not. The one below knows
// versions and serves what is not being written. This one gives its own numbers to nodes, keeps
// the content of written files in staged files, and saves it to the store on flush.
//
// The path of a write is in docs/design/0014-writing.md. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/gate.h"
#include "vfs/file_system.h"
#include "vfs/writing/written_file.h"
#include "vfs/writing/written_nodes.h"

namespace leat {

struct WritingOptions {
  std::string staging_directory;  // exists; on a local disk
  // Attempts to send a file where it is unknown whether the last one succeeded. The pauses between
  // them double, from 20 ms. The source repeats requests without conditions by itself.
  int save_attempts = 9;
  std::function<WallTime()> wall_clock = [] {
    return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  };
};

// `below` and the result show the namespace below `root`. The references outlive the result;
// `store` may be null. What is not saved when the result is destroyed is lost (save_all).
class WritableFileSystem : public FileSystem, public NamespaceChanges {
 public:
  WritableFileSystem(std::unique_ptr<FileSystem> below, std::string root, Catalog& catalog,
                     PageStore* store, Executor& executor, WritingOptions options);

  // FileSystem.
  std::vector<ReopenedFile> take_over() override { return {}; }
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
  std::shared_ptr<OpenFile> open_cached_version(NodeId) override { return nullptr; }
  FileRefPtr version_of(NodeId node) const override;
  NamespaceChanges* changes(NodeId) override { return this; }
  std::vector<std::string> attribute_names(NodeId node) override;
  Result<std::string> attribute_value(NodeId node, std::string_view name) override;
  Status reject_change(NodeId node, std::string_view operation, std::string_view name) override;
  void record_error(NodeId node, std::string_view name, const Status& status,
                    const Caller& caller) override;
  void record_caller(NodeId node, const Caller& caller) override;
  std::vector<PathError> errors() const override { return below_->errors(); }
  std::string path_of(NodeId node, std::string_view name) const override;
  uint64_t nodes() const override { return nodes_.size(); }
  void catalog_changed(const CatalogChange& change) override { below_->catalog_changed(change); }
  void revalidate_held(const std::string& path) override { below_->revalidate_held(path); }
  void bytes_dropped(const FileIdSet& files) override { below_->bytes_dropped(files); }
  void retire(NodeId node) override;
  void set_invalidation_listener(std::function<void(const KernelInvalidation&)> listener) override;

  // NamespaceChanges.
  Task<Result<CreatedFile>> create(Context context, NodeId parent, std::string name, NewName as,
                                   int flags) override;
  Task<Result<NodeAttributes>> make_directory(Context context, NodeId parent, std::string name,
                                              NewName as) override;
  Task<Result<NodeAttributes>> make_symlink(Context context, NodeId parent, std::string name,
                                            std::string target, NewName as) override;
  Task<Result<std::string>> read_symlink(Context context, NodeId node) override;
  Task<Result<>> remove_file(Context context, NodeId parent, std::string name) override;
  Task<Result<>> remove_directory(Context context, NodeId parent, std::string name) override;
  Task<Result<>> rename(Context context, RenameOp op) override;
  Task<Result<NodeAttributes>> set_attributes(Context context, NodeId node,
                                              AttributeChange change) override;
  Task<Result<>> save_all(Context context) override;

 private:
  friend class WrittenFile;

  // A name in a store.
  struct Place {
    MountPtr mount;
    std::string path;           // in the namespace
    std::string key;            // of a file; a directory's ends in '/'
    std::string directory_key;  // of its parent
  };

  // ---- names
  WrittenNodePtr find(NodeId node) const;
  // Returns the node below that shows the same directory or file.
  Task<Result<NodeId>> find_below(Context context, WrittenNodePtr node);
  // Gives the answer of the file system below, which has a lookup count, to a node of ours.
  // Returns nothing if names in `parent` have changed since `changes`: the answer may be old.
  std::optional<Result<NodeAttributes>> adopt(const WrittenNodePtr& parent, std::string_view name,
                                              const NodeAttributes& found, uint64_t changes);
  // The same for a missing name.
  bool note_missing(const WrittenNodePtr& parent, std::string_view name, uint64_t changes);
  uint64_t changes_of(const WrittenNode& directory) const;
  // The caller holds the nodes' mutex.
  NodeAttributes describe(const WrittenNode& node, NodeAttributes below) const;
  NodeAttributes known_below(const WrittenNode& node) const;
  std::string full_path(const WrittenNode& node, std::string_view name = {}) const;
  NodeId below_id(NodeId node) const;  // 0: none
  std::optional<KernelInvalidation> translate(const KernelInvalidation& name) const;
  void note_changed(WrittenNode& directory);
  // Asks the store for the attributes that it keeps, unless they are known.
  Task<> learn_attributes(Context context, WrittenNodePtr parent, std::string name);
  // Does the same for this name and those after it in a listing that is being read.
  bool has_learnt(const WrittenNode& parent, std::string_view name) const;
  Task<> learn_ahead(Context context, WrittenNodePtr parent, std::string name);
  Task<> learn_one(Gate::Holder holder, Context context, WrittenNodePtr parent, Place place);
  // Returns whether lookups of the name need such a request. The caller holds the nodes' mutex.
  bool must_learn(const WrittenNode& parent, std::string_view name) const;
  PosixAttributes attributes_of(const WrittenNode& node) const;

  // ---- content
  std::shared_ptr<StagedFile> staged_of(const WrittenNode& node) const;
  std::shared_ptr<WrittenFile> file_of(const WrittenNodePtr& node);
  Task<Result<std::shared_ptr<WrittenFile>>> open_below(Context context, WrittenNodePtr node);
  // Gives the node a staged file. `empty`: the present content is not needed.
  Task<Result<>> stage(Context context, WrittenNodePtr node, bool empty);
  Task<Result<>> stage_locked(Context context, WrittenNodePtr node, bool empty);
  // Before the content leaves the store under an open file.
  Task<> keep_content(Context context, WrittenNodePtr node);
  void note_written(WrittenNode& node);

  // ---- saving
  Task<Result<>> save(Context context, WrittenNodePtr node);
  Task<Result<>> save_locked(Context context, WrittenNodePtr node);
  Task<Result<SourceObject>> send(Context context, Place place, WriteRequest request,
                                  std::shared_ptr<StagedFile> content);
  Task<Result<SourceObject>> send_once(Context context, Place place, WriteRequest request,
                                       std::shared_ptr<StagedFile> content, uint64_t size);
  // Returns whether the object in the store has this content.
  Task<bool> is_saved(Context context, Place place, SourceObject object,
                      std::shared_ptr<StagedFile> content);
  // Remembers what was sent, after a failure that may have been a success.
  Task<> note_attempt(WrittenNodePtr node, std::shared_ptr<StagedFile> content, uint64_t changes);
  // Returns the object if it is what such an attempt has written.
  Task<std::optional<SourceObject>> find_attempt(Context context, Place place,
                                                 ContentDigest attempted);
  // Keeps changed attributes in the store, as far as it can.
  Task<Result<>> save_attributes(Context context, WrittenNodePtr node);
  Task<Result<>> keep_conflict(Context context, WrittenNodePtr node, Place place,
                               std::shared_ptr<StagedFile> content, Status why);
  // The store has a new version of the name: shows it below, and lets the node have it.
  Task<> publish(Context context, WrittenNodePtr node, Place place);
  Task<> fill_cache(Context context, FileRefPtr ref, std::shared_ptr<StagedFile> content,
                    uint64_t changes);
  // Ends one open.
  Task<Result<>> close(Context context, WrittenNodePtr node);
  bool try_close(const WrittenNodePtr& node);
  void drop_saved(const WrittenNodePtr& node);

  // ---- changes of names
  Result<Place> place_of(const WrittenNodePtr& parent, std::string_view name) const;
  Task<> refresh(Context context, std::string path);
  // A directory of an object store is not to vanish with its last name.
  Task<Result<>> keep_directory(Context context, Place place);
  // kExists if the name is in use.
  Task<Result<>> require_missing(Context context, NodeId parent, std::string name, Place place);
  // Looks the name up, for a change of it.
  Task<Result<WrittenNodes::Hold>> named(Context context, NodeId parent, std::string name);
  // Returns the files below it that are being written.
  std::vector<WrittenNodePtr> staged_below(const WrittenNode& directory) const;
  Task<Result<>> rename_file(Context context, WrittenNodePtr node, WrittenNodePtr replaced,
                             Place from, Place to);
  Task<Result<>> rename_directory(Context context, WrittenNodePtr node, WrittenNodePtr replaced,
                                  Place from, Place to);
  Task<Result<>> require_empty(Context context, WrittenNodePtr directory, Place place);

  const std::unique_ptr<FileSystem> below_;
  const std::string root_path_;
  Catalog& catalog_;
  PageStore* const store_;
  Executor& executor_;
  const WritingOptions options_;
  WrittenNodes nodes_;
};

}  // namespace leat
