// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: a FileSystem that takes writes, over one that does not. The one below knows
// versions and serves what is not being written. This one gives its own numbers to nodes, keeps
// the content of written files in staged files, and saves it to the store on flush.
//
// The path of a write is in docs/design/0014-writing.md. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/gate.h"
#include "source/part_plan.h"
#include "vfs/file_system.h"
#include "vfs/writing/staged/part_stream.h"
#include "vfs/writing/upload_queue.h"
#include "vfs/writing/write_journal.h"
#include "vfs/writing/written_file.h"
#include "vfs/writing/written_nodes.h"

namespace leat {

struct WritingOptions {
  std::string staging_directory;  // exists; on a local disk
  // For changes that the store gets later; made when it is needed. Empty: there are none.
  std::string journal_directory{};
  std::string owner{};  // says for which mount the journal is
  UploadOptions uploads{};
  // The kernel writes to staged files by itself where the mode is not `through`; needs
  // StagedFile::has_exact_times().
  bool direct_writes = false;
  // Attempts to send a file where it is unknown whether the last one succeeded. The pauses between
  // them double, from 20 ms. The source repeats requests without conditions by itself.
  int save_attempts = 9;
  std::function<WallTime()> wall_clock = [] {
    return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  };
};

// `below` and the result show the namespace below `root`. The references outlive the result;
// `store` may be null. What is not saved when the result is destroyed is lost (save_all). What is
// in the journal is not. stop() before the destruction.
class WritableFileSystem : public FileSystem, public NamespaceChanges {
 public:
  WritableFileSystem(std::unique_ptr<FileSystem> below, std::string root, Catalog& catalog,
                     PageStore* store, Executor& executor, WritingOptions options);
  ~WritableFileSystem() override;

  // Continues with the changes of the journal, if there is one. Call before anything else; blocks.
  Result<> restore();

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
  PosixChanges& posix() override { return *posix_; }
  Task<Result<>> save_all(Context context) override;
  Task<Result<>> flush(Context context, std::string path) override;
  UnsentChanges unsent() const override;
  Task<> stop() override;

 private:
  friend class WrittenFile;
  friend class WritableLinks;

  // A name in a store.
  struct Place {
    MountPtr mount;
    std::string path;           // in the namespace
    std::string key;            // of a file
    std::string directory_key;  // of its parent

    // The key of a directory of this name.
    std::string as_directory() const { return key + '/'; }
    SourceCapabilities capabilities() const { return mount->source->capabilities_of(key); }
  };

  // ---- names
  WrittenNodePtr find(NodeId node) const;
  // Returns the node below that shows the same directory or file.
  Task<Result<NodeId>> find_below(Context context, WrittenNodePtr node, bool removed_too = false);
  // Nothing: the store renamed something meanwhile.
  Task<Result<std::optional<NodeId>>> find_below_once(Context context, WrittenNodePtr node,
                                                      bool removed_too);
  // Returns whether a lookup has to find the node below first, since it is stored under an earlier
  // name. The caller holds the nodes' mutex.
  static bool needs_below(const WrittenNode& node) {
    return !node.former.empty() && !node.staged && node.below == 0 &&
           (node.in_store || !node.is_directory());
  }
  // Returns whether the same holds, or its attributes are not known. The caller holds the nodes'
  // mutex.
  bool must_find(const WrittenNode& parent, const WrittenNode& node) const;
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
  struct Listed {
    ListingPtr names{};
    Clock::duration valid_for{};
  };
  Task<Result<Listed>> list_once(Context context, WrittenNodePtr node);
  Task<> find_renamed(Context context, WrittenNodePtr directory);
  // Returns the names of a directory that differ from those below.
  std::vector<Listing::Overlay> written_in(const WrittenNode& directory,
                                           const Listing& below) const;
  std::optional<KernelInvalidation> translate(const KernelInvalidation& name) const;
  void note_changed(WrittenNode& directory);
  // Asks the store for the attributes that it keeps, unless they are known.
  Task<> learn_attributes(Context context, WrittenNodePtr parent, std::string name);
  // Does the same for this name and those after it in a listing that is being read.
  bool has_learnt(const WrittenNode& parent, std::string_view name) const;
  Task<> learn_ahead(Context context, WrittenNodePtr parent, std::string name);
  Task<> learn_one(Gate::Holder holder, Context context, WrittenNodePtr parent, std::string name,
                   Place place);
  // Returns whether lookups of the name need such a request. The caller holds the nodes' mutex.
  bool must_learn(const WrittenNode& parent, std::string_view name) const;
  PosixAttributes attributes_of(const WrittenNode& node) const;

  // ---- content
  std::shared_ptr<StagedFile> staged_of(const WrittenNode& node) const;
  std::shared_ptr<WrittenFile> file_of(const WrittenNodePtr& node);
  // Opens the version of now. The open file of the node reads it, too, until another open; an older
  // one may end later.
  Task<Result<std::shared_ptr<OpenFile>>> open_below(Context context, WrittenNodePtr node);
  // The next open looks the node below up again.
  Task<> outdate_below(Context context, WrittenNodePtr node);
  // Gives the node a staged file. `empty`: the present content is not needed.
  Task<Result<>> stage(Context context, WrittenNodePtr node, bool empty);
  Task<Result<>> stage_locked(Context context, WrittenNodePtr node, bool empty);
  // The same for one that has none. False: the store renamed it meanwhile.
  Task<Result<bool>> stage_version(Context context, WrittenNodePtr node, bool empty);
  Task<Result<>> stage_again(WrittenNodePtr node, std::shared_ptr<StagedFile> content, bool empty);
  // Before the content leaves the store under an open file.
  Task<> keep_content(Context context, WrittenNodePtr node);
  void note_written(WrittenNode& node);
  // StagedFile's, for a node.
  std::shared_ptr<BackingFile> write_directly(const WrittenNodePtr& node) const;
  void note_direct_writes(WrittenNode& node);

  // ---- saving
  Task<Result<>> save(Context context, WrittenNodePtr node, bool ordered = false);
  // `ordered`: as PendingChange::ordered, for one that the store gets later.
  Task<Result<>> save_locked(Context context, WrittenNodePtr node, bool ordered = false);
  // Returns what the store has under the node's name, as far as we know. The caller holds the
  // nodes' mutex.
  static WriteCondition condition_of(const WrittenNode& node);
  // `stream`: an upload of this content that has begun.
  Task<Result<SourceObject>> send(Context context, Place place, WriteRequest request,
                                  std::shared_ptr<StagedFile> content,
                                  std::shared_ptr<PartStream> stream = nullptr);
  // The same without a record of it. `same`: what the version of the condition has as well.
  Task<Result<SourceObject>> send_repeatedly(Context context, Place place, WriteRequest request,
                                             std::shared_ptr<StagedFile> content,
                                             UnchangedRanges same,
                                             std::shared_ptr<PartStream> stream);
  Task<Result<SourceObject>> send_changed(Context context, Place place, WriteRequest request,
                                          std::shared_ptr<StagedFile> content, UnchangedRanges same,
                                          std::shared_ptr<PartStream> stream);
  // A new file that is written in order is sent meanwhile (writable_streams.cc). Called after each
  // write; does not block.
  void stream_written(const WrittenNodePtr& node);
  // Returns null if the store gets the file by its save, or later.
  std::shared_ptr<PartStream> begin_stream(const WrittenNodePtr& node,
                                           const std::shared_ptr<StagedFile>& content);
  // Its next save sends the whole file. The caller holds the nodes' mutex.
  static void end_stream(WrittenNode& node);
  // Returns the upload if it makes the object of this save. Else the request gets the attributes
  // that the node has without it.
  std::shared_ptr<PartStream> take_stream(WrittenNode& node, std::shared_ptr<PartStream> stream,
                                          const std::shared_ptr<StagedFile>& content,
                                          WriteRequest& request);
  static WriteCondition compared_condition(WriteCondition condition,
                                           const SourceCapabilities& store);
  // Sends some parts; the store copies the others from a version of the same key.
  static Task<Result<SourceObject>> send_parts(Context context, Place place, WriteRequest request,
                                               std::shared_ptr<StagedFile> content,
                                               std::vector<PlannedPart> parts,
                                               Version copied_version);
  static Task<Result<>> append_range(Context context, ObjectWriter& writer,
                                     const WriteRequest& request,
                                     std::shared_ptr<StagedFile> content, ByteRange range);
  Task<Result<SourceObject>> send_once(Context context, Place place, WriteRequest request,
                                       std::shared_ptr<StagedFile> content, uint64_t size);
  // Returns whether the object in the store has this content. An error: that is not known.
  Task<Result<bool>> is_saved(Context context, Place place, SourceObject object,
                              std::shared_ptr<StagedFile> content);
  // Remembers what was sent, after a failure that may have been a success.
  Task<> note_attempt(WrittenNodePtr node, std::shared_ptr<StagedFile> content, uint64_t changes);
  // Returns the object if it is what such an attempt has written. An error: that is not known.
  Task<Result<std::optional<SourceObject>>> find_attempt(Context context, Place place,
                                                         ContentDigest attempted);
  // Keeps changed attributes in the store, as far as it can.
  Task<Result<>> save_attributes(Context context, WrittenNodePtr node);
  Task<Result<>> keep_conflict(Context context, WrittenNodePtr node, Place place,
                               std::shared_ptr<StagedFile> content, Status why);
  // The store has a new version of the name: shows it below, and lets the node have it.
  Task<> publish(Context context, WrittenNodePtr node, Place place, SourceObject object);
  Task<> make_warm(Context context, WrittenNodePtr node, Place place, FileRefPtr ref,
                   std::shared_ptr<StagedFile> content, uint64_t changes);
  Task<> fill_later(Gate::Holder holder, WrittenNodePtr node, FileRefPtr ref,
                    std::shared_ptr<StagedFile> content, uint64_t changes);
  Task<> fill_cache(Context context, FileRefPtr ref, std::shared_ptr<StagedFile> content,
                    uint64_t changes);
  // Ends one open.
  Task<Result<>> close(Context context, WrittenNodePtr node);
  bool try_close(const WrittenNodePtr& node);
  void drop_saved(const WrittenNodePtr& node);

  // ---- changes of names
  Result<Place> place_of(const WrittenNodePtr& parent, std::string_view name) const;
  Result<Place> place_in(const std::string& directory, std::string_view name) const;
  // The place of a path below the root.
  Result<Place> place_at(std::string_view path) const;
  // Where the store has the name until pending renames are sent.
  Result<Place> stored_place_of(const WrittenNodePtr& parent, std::string_view name) const;
  Task<> refresh(Context context, std::string path);
  // The same after a change of ours, without a request where its result is known. `now`: what the
  // name has by it; nothing: it was removed.
  Task<> learn_change(Context context, Place place, std::optional<SourceObject> now);
  // A directory of an object store is not to vanish with its last name.
  Task<Result<>> keep_directory(Context context, Place place);
  // kExists if the name is in use.
  Task<Result<>> require_missing(Context context, NodeId parent, std::string name, Place place);
  // Looks the name up, for a change of it.
  Task<Result<WrittenNodes::Hold>> named(Context context, NodeId parent, std::string name);
  // Takes the permits of files in their order. Held over a change of names, so that no save writes
  // an old name again.
  struct ChangePermit {
    WrittenNodePtr node{};  // before the permit, which it outlives
    Semaphore::Permit permit{};
  };
  static Task<Result<std::vector<ChangePermit>>> acquire_changing(
      Context context, std::vector<WrittenNodePtr> nodes);
  // Returns the files below it that are being written.
  std::vector<WrittenNodePtr> staged_below(const WrittenNode& directory) const;
  Task<Result<>> rename_file(Context context, WrittenNodePtr node, WrittenNodePtr replaced,
                             Place from, Place to, bool no_replace);
  // By the store's own rename.
  static Task<Result<SourceObject>> rename_natively(Context context, Place from, Place to,
                                                    bool no_replace);
  static Task<Result<SourceObject>> rename_object(Context context, Place from, Place to,
                                                  bool no_replace);
  Task<Result<>> require_empty(Context context, WrittenNodePtr directory, Place place);
  // Names below a directory: "a/b", and "" for itself.
  struct CopiedNames {
    std::vector<std::string> names{};  // what there was to copy
    bool is_partial = false;           // there are more names
    std::map<std::string, Version> versions{};
    std::optional<Status> failure{};
  };
  using CopiedNamesPtr = std::shared_ptr<CopiedNames>;
  // Ends after `names_max` names. kCrossDevice if there are names that cannot be copied.
  static Task<Result<CopiedNamesPtr>> list_to_copy(Context context, Place from, size_t names_max);
  // The same for a rename of a directory while its program waits. Null: it is done without copies.
  Task<Result<CopiedNamesPtr>> list_few_to_copy(Context context, WrittenNodePtr node, Place from);
  Task<Result<>> rename_in_store(Context context, WrittenNodePtr node, WrittenNodePtr replaced,
                                 Place from, Place to, bool no_replace, CopiedNamesPtr copied);
  Task<Result<>> rename_directory(Context context, WrittenNodePtr node, WrittenNodePtr replaced,
                                  Place from, Place to, CopiedNamesPtr copied);
  // The same by copies (writable_directories.cc).
  Task<Result<>> copy_directory(Context context, WrittenNodePtr directory, Place from, Place to,
                                CopiedNamesPtr copied);
  // Waits until the store has a rename that is pending.
  Task<Result<>> await_rename(Context context, Place from, Place to);
  Task<> copy_names(Context context, Place from, Place to, CopiedNamesPtr copied);
  // Ends at the first failure.
  Task<> copy_some(Context context, Place from, Place to, CopiedNamesPtr copied);
  Task<> copy_one(Gate::Holder holder, Semaphore::Permit permit, Context context, Place from,
                  Place to, std::string below, CopiedNamesPtr copied);
  static Task<Result<>> remove_names(Context context, Place directory, CopiedNamesPtr copied);
  WrittenNodePtr held_below(const WrittenNode& directory, std::string_view path) const;

  // Makes a symbolic link or a special file in a store that has them as such.
  Task<Result<NodeAttributes>> make_node(Context context, NodeId id, std::string name, NewName as,
                                         NodeRequest request);

  // ---- files with several names (writable_names.cc)
  // Returns the place of the node itself, the root included. A directory's key ends in '/'.
  Result<Place> place_of_node(const WrittenNodePtr& node) const;
  // The same until pending renames are sent.
  Result<Place> stored_place_of_node(const WrittenNodePtr& node) const;
  // Learns the kind and the number of names. If another node shows the same file, gives that the
  // name. The caller holds the nodes' mutex.
  void learn_file(const WrittenNodePtr& parent, std::string_view name, const WrittenNodePtr& node,
                  const PosixAttributes& kept);
  Task<> learn_root(Context context);
  // Before a lookup where files may have other names: a change by one of them may be unknown here.
  Task<> refresh_linked(Context context, WrittenNodePtr parent, std::string name);
  // Returns the answer to a lookup after its attributes are learnt.
  NodeAttributes describe_learnt(const WrittenNode& parent, std::string_view name,
                                 const NodeAttributes& found);
  // The store has this version of the node. The caller holds the nodes' mutex.
  void note_object(WrittenNode& node, const SourceObject& object);
  // A name was removed in the store, or replaced. The caller holds the nodes' mutex.
  void note_removed(WrittenNode& node, WrittenNode& parent, std::string_view name);
  // A directory got or lost a directory. The caller holds the nodes' mutex.
  static void count_directory(WrittenNode& parent, int change);
  // Refreshes a name that the kernel has changed itself, so that it keeps its node.
  Task<> refresh_own(Context context, std::string path);
  // A change by one name gives all names of a file another version.
  Task<> refresh_names(Context context, WrittenNodePtr node);
  // The same where the version is not known.
  Task<> find_version_of_names(Context context, WrittenNodePtr node);
  Task<Result<>> exchange(Context context, RenameOp op);
  // A name in a directory with the set-group-ID bit has the directory's group.
  NewName inherit_group(const WrittenNode& parent, NewName as, bool is_directory) const;

  // ---- changes that the store gets later, or never
  WriteMode mode_of(const Place& place) const;
  // Returns whether a change of this name is not sent at once.
  bool is_behind(const Place& place) const;
  std::string below_root(const std::string& path) const;  // "/a/b" of a path of the namespace
  Result<> need_journal();
  Task<Result<>> commit(WriteJournal::Edits edits);
  // Sends what is pending at and below a path, below the root; "": all.
  Task<Result<>> drain(Context context, std::string path);
  // The same before a change that only a store can make. kUnsupported in mode local.
  Task<Result<>> prepare_store(Context context, Place place);
  // Held by each change from the choice of its path until it is queued; a rename of a directory
  // holds all. Taken after the nodes' permits.
  static constexpr uint64_t kTreeChangesMax = 1 << 16;
  Task<Result<Semaphore::Permit>> enter_tree(Context context, uint64_t changes = 1);
  Task<Result<>> queue_save(Context context, WrittenNodePtr node, bool ordered);
  std::function<Result<StagedFile::Reopen>(const File&, uint64_t)> keeper(
      std::shared_ptr<QueuedChange> change, std::shared_ptr<std::string> small) const;
  StagedFile::Reopen reopener(const PendingChange& change) const;
  // Gives a pending change the node's attributes. False: it is in the store by now.
  Task<Result<bool>> requeue_attributes(WrittenNodePtr node);
  Task<Result<NodeAttributes>> make_directory_behind(Context context, WrittenNodePtr parent,
                                                     std::string name, NewName as);
  Task<Result<>> remove_behind(Context context, WrittenNodePtr parent, WrittenNodePtr node,
                               std::string name);
  Task<bool> shows_nothing(Context context, WrittenNodePtr directory);
  struct RenamedBehind {
    bool done = true;           // false: the store has to rename
    QueuedChangePtr pending{};  // held until the node has its new name; null: none
  };
  Task<Result<RenamedBehind>> rename_behind(Context context, WrittenNodePtr node,
                                            WrittenNodePtr replaced, Place from, Place to);
  Task<Result<RenamedBehind>> rename_directory_behind(Context context, WrittenNodePtr node,
                                                      WrittenNodePtr replaced, Place from,
                                                      Place to);
  // Returns whether a rename of the node has to be one in the store.
  bool renames_in_store(const WrittenNode& node, const Place& from) const;
  Task<Result<RenamedBehind>> queue_rename(WrittenNodePtr node, WrittenNodePtr replaced, Place from,
                                           Place to);
  // Withdraws pending changes, the last one first. Puts them back, and returns nothing, if one of
  // them is in the store by now.
  Task<std::optional<std::vector<UploadQueue::Withdrawn>>> withdraw_all(
      std::vector<QueuedChangePtr> changes);
  void put_back(const std::vector<UploadQueue::Withdrawn>& withdrawn);
  QueuedChangePtr removal_of(const WrittenNodePtr& parent, const Place& place, bool directory);
  // Gives pending changes new places in the queue, and adds those that are new; the others go.
  struct Moves {
    std::vector<UploadQueue::Withdrawn> withdrawn{};
    std::map<uint64_t, QueuedChangePtr> moved{};  // by the number before
    std::set<uint64_t> begun{};                   // new numbers of what the store may have there
    std::vector<QueuedChangePtr> added{};
    std::function<void()> settle{};  // sets the nodes' state, with their mutex
  };
  Task<Result<>> commit_moves(Moves moves);
  void drop_content(const QueuedChange& change) const;
  // Returns the content as it was kept, or a copy where a program may write to it meanwhile.
  Task<Result<std::shared_ptr<StagedFile>>> content_to_send(QueuedChangePtr change) const;

  // ---- pending changes on their way
  static std::string mount_of(const Place& place);  // for PendingChange
  // kUnavailable while another mount is there.
  Result<Place> place_of_change(const PendingChange& change) const;
  Task<Result<>> send_change(Context context, QueuedChangePtr change);
  Task<Result<>> send_save(Context context, QueuedChangePtr change, Place place);
  Task<Result<>> send_directory(Context context, QueuedChangePtr change, Place place);
  Task<Result<>> send_removal(Context context, QueuedChangePtr change, Place place);
  Task<Result<>> send_rename(Context context, QueuedChangePtr change, Place to);
  Task<Result<>> rename_stored(Context context, QueuedChangePtr change, Place from, Place to);
  static Task<Result<bool>> has_in_store(Context context, Place place, bool directory);
  Task<Result<>> fill_staged(Context context, WrittenNodePtr node);
  // The new versions of files, by their path below the new name; the others are not known.
  using NewVersions = std::map<std::string, Version>;
  // Notes in the nodes and the journal that the store has done it. Without `versions` they stay.
  Task<Result<>> end_rename(Context context, QueuedChangePtr change, Place from, Place to,
                            std::optional<NewVersions> versions);
  Task<> end_save(WrittenNodePtr node, QueuedChangePtr change);
  WrittenNodePtr node_at(std::string_view path);  // the caller holds the nodes' mutex
  // Adds the directories of a path that the journal names. The caller holds the nodes' mutex.
  WrittenNodePtr directory_at(std::string_view path);
  QueuedChangePtr restore_change(const PendingChange& change);
  // The caller holds the nodes' mutex.
  void restore_rename(const QueuedChangePtr& change);

  const std::unique_ptr<FileSystem> below_;
  const std::string root_path_;
  Catalog& catalog_;
  PageStore* const store_;
  Executor& executor_;
  const WritingOptions options_;
  WrittenNodes nodes_;
  std::multiset<std::string> own_changes_;  // paths; guarded by the nodes' mutex
  Semaphore tree_{kTreeChangesMax};
  const PartStream::Slots streams_ = std::make_shared<std::atomic<int>>(0);
  Gate fills_;  // and parts of streams
  std::stop_source fills_stop_;
  std::mutex journal_mutex_;  // held while the journal is opened
  std::unique_ptr<WriteJournal> journal_;
  std::unique_ptr<UploadQueue> uploads_;
  std::atomic<bool> has_journal_ = false;  // both are set, and stay until stop()
  const std::unique_ptr<PosixChanges> posix_;
};

}  // namespace leat
