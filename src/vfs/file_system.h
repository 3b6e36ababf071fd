// SPDX-License-Identifier: Apache-2.0
// FileSystem: the namespace as nodes and open files, with the semantics of docs/semantics.md.
// Independent of the kernel: the FUSE frontend translates this interface, and tests use it
// directly. Thread-safe.
//
// A node is one version of one path: a changed object gets a new node and the name is invalidated;
// old opens keep the old node. An open file is one version to its end.
//
// Each operation has a try_ twin that answers from memory or not at all and never waits.
#pragma once

#include <sys/stat.h>

#include <bit>
#include <boost/unordered/unordered_flat_set.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "fetch/fetcher.h"
#include "prefetch/window_budget.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/memfd_record_table.h"
#include "runtime/task.h"

namespace leat {

using NodeId = uint64_t;
using FileIdSet = boost::unordered_flat_set<FileId, IdHash>;
inline constexpr NodeId kRootNode = 1;

// Returns the part of a table with `shards` parts (a power of two, more than one) that has the
// node. Node numbers differ in their upper bits (NodeTable), so they are mixed.
constexpr size_t shard_of_node(NodeId node, size_t shards) {
  return (node * 0x9e3779b97f4a7c15ull) >> (64 - std::countr_zero(shards));
}

// Validity of immutable names in a kernel: a day; then it requests them again.
inline constexpr Clock::duration kForever = std::chrono::hours(24);

struct NodeAttributes {
  NodeId node = 0;
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  WallTime mtime{};                          // the epoch if the store has none
  std::optional<WallTime> atime{}, ctime{};  // nothing: as mtime
  mode_t mode = 0;                           // with S_IFREG, S_IFDIR, S_IFLNK …
  uid_t uid = 0;
  gid_t gid = 0;
  std::optional<uint64_t> links{};  // nothing: those of a file or directory with one name
  dev_t device = 0;                 // of a special file
  // Remaining freshness of name and attributes.
  Clock::duration valid_for{};
};

// OpenDirectory: a directory listing that does not change while it is read.
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
  // Cookies are positions: 0 is the start, others come from a cursor's position(). They are valid
  // as long as this object, which must outlive the cursor.
  virtual Listing::Cursor from(uint64_t cookie) const = 0;
  // Begins at the first greater name.
  virtual Listing::Cursor after(std::string_view name) const = 0;
  virtual NodeId node() const = 0;
  // Remaining freshness of the listing: kForever for immutable directories, and for those of a
  // snapshot until it is exchanged.
  virtual Clock::duration valid_for() const = 0;
  // Returns false once the mount has changed: a read from the start must then open it again.
  virtual bool is_latest() const = 0;
  virtual const ListingPtr& listing() const = 0;
};

class WritableFile;

class OpenFile {
 public:
  virtual ~OpenFile() = default;
  // Returns this file where it may be open for writing, too; otherwise null.
  virtual WritableFile* writable() { return nullptr; }
  virtual NodeId node() const = 0;
  // Returns null for a virtual file (`.leat`).
  virtual const FileRefPtr& ref() const = 0;
  // Return at most `size` bytes from `offset`; fewer only at the end of the file. A read returns
  // kVersionChanged if the store no longer has the version and the bytes are not cached. The caller
  // keeps the file alive meanwhile.
  virtual std::optional<Bytes> try_read(uint64_t offset, uint64_t size) = 0;
  virtual Task<Result<Bytes>> read(Context context, uint64_t offset, uint64_t size) = 0;
  // Call before a read into the kernel's page cache. Returns true if the kernel reads around one
  // page of a mapping, and an error makes it request that page alone
  // (prefetch/mmap_fault_detector.h).
  virtual bool rejects_fault_around(uint64_t offset, uint64_t size) {
    static_cast<void>(offset);
    static_cast<void>(size);
    return false;
  }
  // Returns the whole file for direct reads by the kernel, or null.
  virtual std::shared_ptr<BackingFile> backing() = 0;
  // Same for a file that the kernel has read directly since before a takeover (PageStore::hold).
  virtual std::shared_ptr<BackingFile> hold_backing() { return backing(); }
  // Records, for a takeover, the number of opens in the kernel and the backing id of its direct
  // reads.
  virtual void record_open(uint32_t opens, int32_t backing) = 0;
};

// An open file of a mount that takes writes. Writes are visible to reads at once, and to the store
// after flush() or sync().
class WritableFile : public OpenFile {
 public:
  WritableFile* writable() override { return this; }
  // Writes all of `data`; extends the file if needed.
  virtual Task<Result<>> write(Context context, uint64_t offset, Bytes data) = 0;
  // As fallocate(2): `mode` is a set of FALLOC_FL_… flags.
  virtual Task<Result<>> allocate(Context context, int mode, uint64_t offset, uint64_t size) = 0;
  // A program closed a descriptor: returns when what was written is saved, as the mode of writing
  // says.
  virtual Task<Result<>> flush(Context context) = 0;
  // The same for fsync(2). What is written later reaches the store later.
  virtual Task<Result<>> synchronise(Context context) { return flush(std::move(context)); }
  // An open has ended: saves what was written since its last flush (by a mapping). One call for
  // each success of open() or create().
  virtual Task<Result<>> close(Context context) = 0;
  // Does the same and returns true if nothing has to be saved.
  virtual bool try_close() = 0;
};

// Changes that a mount holds and its store does not have.
struct UnsentChanges {
  uint64_t changes = 0;
  uint64_t bytes = 0;
  uint64_t local_bytes = 0;          // of files that are never sent; not in `bytes`
  std::optional<WallTime> oldest{};  // when the first of the changes was made
  std::optional<Status> failure{};   // of the last attempt; nothing after a success
};

// The owner and mode of a new name.
struct NewName {
  mode_t mode = 0;  // permissions only
  uid_t uid = 0;
  gid_t gid = 0;
};

// Attributes to change; nothing: as they are.
struct AttributeChange {
  std::optional<uint64_t> size{};
  std::optional<mode_t> mode{};  // permissions only
  std::optional<uid_t> uid{};
  std::optional<gid_t> gid{};
  std::optional<WallTime> atime{}, mtime{};
};

struct RenameOp {
  NodeId parent = 0;
  std::string name{};
  NodeId new_parent = 0;
  std::string new_name{};
  bool no_replace = false;  // kExists if the new name is in use
  bool exchange = false;    // both names stay; kInvalidArgument where the store cannot
};

struct CreatedFile {
  NodeAttributes attributes;
  std::shared_ptr<OpenFile> file;
};

// PosixChanges: what only some stores can do. kUnsupported where the store of the node cannot.
class PosixChanges {
 public:
  virtual ~PosixChanges() = default;
  // These three add one to the lookup count of the node, as a lookup does.
  // Makes a FIFO, a socket or a device; `type` is its S_IF….
  virtual Task<Result<NodeAttributes>> make_special(Context context, NodeId parent,
                                                    std::string name, NewName as, mode_t type,
                                                    dev_t device) = 0;
  // Gives the file one more name.
  virtual Task<Result<NodeAttributes>> link(Context context, NodeId node, NodeId parent,
                                            std::string name) = 0;
  // Creates and opens a file without a name; link() gives it one. Every store can.
  virtual Task<Result<CreatedFile>> create_unnamed(Context context, NodeId parent, NewName as) = 0;

  // Extended attributes ("user.…") that the store keeps; kNotFound if there is none of the name.
  virtual Task<Result<std::string>> attribute(Context context, NodeId node, std::string name) = 0;
  virtual Task<Result<std::vector<std::string>>> attributes(Context context, NodeId node) = 0;
  // `flags` as of setxattr(2).
  virtual Task<Result<>> set_attribute(Context context, NodeId node, std::string name,
                                       std::string value, int flags) = 0;
  virtual Task<Result<>> remove_attribute(Context context, NodeId node, std::string name) = 0;
};

// NamespaceChanges: what a mount that takes writes can do beside FileSystem. A node keeps its
// number over writes and renames. Errors are those of POSIX (kExists, kNotEmpty, kIsDirectory …)
// and of the store.
class NamespaceChanges {
 public:
  virtual ~NamespaceChanges() = default;
  // Creates and opens a file; adds one to its lookup count. Opens the present file unless `flags`
  // has O_EXCL. The store has the file after its first flush.
  virtual Task<Result<CreatedFile>> create(Context context, NodeId parent, std::string name,
                                           NewName as, int flags) = 0;
  // Adds one to the lookup count of the new node, as a lookup does.
  virtual Task<Result<NodeAttributes>> make_directory(Context context, NodeId parent,
                                                      std::string name, NewName as) = 0;
  // kUnsupported where the store cannot keep one.
  virtual Task<Result<NodeAttributes>> make_symlink(Context context, NodeId parent,
                                                    std::string name, std::string target,
                                                    NewName as) = 0;
  virtual Task<Result<std::string>> read_symlink(Context context, NodeId node) = 0;
  virtual Task<Result<>> remove_file(Context context, NodeId parent, std::string name) = 0;
  virtual Task<Result<>> remove_directory(Context context, NodeId parent, std::string name) = 0;
  virtual Task<Result<>> rename(Context context, RenameOp op) = 0;
  virtual Task<Result<NodeAttributes>> set_attributes(Context context, NodeId node,
                                                      AttributeChange change) = 0;
  virtual PosixChanges& posix() = 0;
  // Saves everything that is not saved yet: files with a failed save. Returns the first error.
  virtual Task<Result<>> save_all(Context context) = 0;
  // Saves what is at and below `path`, of the namespace, and returns when the store has it. Fails
  // with the first attempt that fails.
  virtual Task<Result<>> flush(Context context, std::string path) = 0;
  virtual UnsentChanges unsent() const = 0;
  // Ends what runs in the background. Call once, after the last request.
  virtual Task<> stop() = 0;
};

// A file that the kernel had open when the previous process ended.
struct ReopenedFile {
  std::shared_ptr<OpenFile> file;
  uint32_t opens = 0;
  int32_t backing = 0;
};

// The requesting process.
struct Caller {
  pid_t pid = 0;  // 0: unknown, or in another pid namespace
  std::string program{};
};

// The last failure of a lookup, listing, read or change of a path.
struct PathError {
  WallTime time{};
  std::string path{};  // below the mount, "train/0001.png"; "." for its root
  StatusCode code = StatusCode::kInternal;
  std::string reason{};
  Caller caller{};
};

// A name that the frontend must invalidate in the kernel.
struct KernelInvalidation {
  NodeId parent;  // 0: none, of the root
  std::string name;
  NodeId node;  // previous node of the name; 0 if it had none: the listing changed, too
  // Expires the freshness of the name and the attributes of its node, not the name. Without a
  // parent: only the attributes and, for a directory, its names.
  bool expire_only = false;
  bool directory = false;  // with `expire_only`: the node is one
  bool may_block = false;  // the caller may wait
  // With `expire_only`: cached pages of the node may be wrong. The kernel drops them; while it
  // reads the file directly, the name gets another node.
  bool pages = false;
};

// EpochListener: gets reports of trees that are read at random (EpochWatcher).
class EpochListener {
 public:
  virtual ~EpochListener() = default;
  // The tree at `path`, of the namespace, is read that way. Called again each second while files
  // are opened or wait for the store. On any thread; must not wait. Returns false if it wants no
  // more reports of this tree until it is detected again.
  virtual bool on_epoch(const std::string& path) = 0;
};

struct FileSystemOptions {
  std::function<Clock::time_point()> now = &Clock::now;
  // Node records for a takeover; may be null, outlives the file system.
  MemfdRecordTable* records = nullptr;
  // Prefetch budget of all file systems of the host; may be null, outlives the file system.
  WindowBudget* windows = nullptr;
  // Prefetch window per reader, bytes. 0 disables prefetching.
  uint64_t prefetch_window_bytes = 64 * kMiB;
  // The kernel's fault-around of a page of a mapping, bytes. 0 disables its detection.
  uint64_t fault_around_bytes = 0;
  // Runs prefetch from file to file; null disables it. Outlives the file system.
  Executor* executor = nullptr;
  // Loads trees that are read at random; null: none. Outlives the file system.
  EpochListener* epochs = nullptr;
};

class FileSystem {
 public:
  // Creates a file system of the namespace below `root` (normalised path). `store` may be null (no
  // cache). The arguments must outlive it, and it must outlive its open files and directories.
  static std::unique_ptr<FileSystem> create(std::string root, Catalog& catalog, Fetcher& fetcher,
                                            PageStore* store, FileSystemOptions options = {});
  virtual ~FileSystem() = default;

  // Restores the nodes that a previous process left in `records`, with their numbers and lookup
  // counts. Call once, before anything else, when the mounts are in the catalog. Sends no request
  // to a store.
  virtual std::vector<ReopenedFile> take_over() = 0;

  // Each success adds one to the node's lookup count; forget() subtracts.
  virtual std::optional<Result<NodeAttributes>> try_lookup(NodeId parent,
                                                           std::string_view name) = 0;
  virtual Task<Result<NodeAttributes>> lookup(Context context, NodeId parent, std::string name) = 0;
  // For READDIRPLUS: a lookup of an entry in an open listing. Returns node 0, and adds nothing, if
  // the name is held in another version: the listing may be older.
  virtual NodeAttributes lookup_from_listing(NodeId parent, const CatalogEntry& entry) = 0;
  virtual void forget(NodeId node, uint64_t count) = 0;
  // Returns how long `name` may be cached as missing in `parent`, counted from the request to the
  // store.
  virtual Clock::duration negative_ttl(NodeId parent, std::string_view name) = 0;

  // Always answers for a file, since a version does not change. A directory may need a request.
  virtual std::optional<Result<NodeAttributes>> try_attributes(NodeId node) = 0;
  virtual Task<Result<NodeAttributes>> attributes(Context context, NodeId node) = 0;

  virtual Task<Result<std::shared_ptr<OpenDirectory>>> open_directory(Context context,
                                                                      NodeId node) = 0;

  // Opens a file. A mount that takes no writes returns kReadOnly, with the reason, for other flags
  // than those of reading. Returns kVersionChanged if the name now has another version than the
  // node: the frontend answers ESTALE and the kernel looks up again.
  virtual std::optional<Result<std::shared_ptr<OpenFile>>> try_open(NodeId node, int flags) = 0;
  virtual Task<Result<std::shared_ptr<OpenFile>>> open(Context context, NodeId node, int flags) = 0;

  // Returns the node's version for reads without an open. Sends no request, since the kernel has
  // looked up its name. Null if an open is needed: for a local file, or a node that is not held.
  virtual std::shared_ptr<OpenFile> open_cached_version(NodeId node) = 0;

  // Returns the version of a file's node; null for a directory, or a node that is not held.
  virtual FileRefPtr version_of(NodeId node) const = 0;

  // Returns the changes that may be made to `node`, or to names in it; null: none, and
  // reject_change() says why.
  virtual NamespaceChanges* changes(NodeId node) {
    static_cast<void>(node);
    return nullptr;
  }

  // user.leat.source, user.leat.version, user.leat.cached_bytes, user.leat.last_error, …
  virtual std::vector<std::string> attribute_names(NodeId node) = 0;
  virtual Result<std::string> attribute_value(NodeId node, std::string_view name) = 0;

  // Returns the reason that a change of `node`, or of `name` in it, is rejected: always kReadOnly
  // for now, with a sentence for the log. Also recorded as the last error.
  virtual Status reject_change(NodeId node, std::string_view operation,
                               std::string_view name = {}) = 0;
  // Records a failed read of `node` or, with a name, a failed lookup in it, for
  // user.leat.last_error and errors().
  virtual void record_error(NodeId node, std::string_view name, const Status& status,
                            const Caller& caller = {}) = 0;
  // Records the caller of the node's last error, unless one is known.
  virtual void record_caller(NodeId node, const Caller& caller) = 0;
  // Returns the last 1,000 errors, oldest first.
  virtual std::vector<PathError> errors() const = 0;

  // Returns the absolute path of `node`, or of a name in it. Empty for a node that is not held.
  virtual std::string path_of(NodeId node, std::string_view name = {}) const = 0;

  // Number of nodes that the kernel holds, with the root.
  virtual uint64_t nodes() const = 0;

  // Receives the changes of Catalog::set_change_listener from the owner of the catalog. One catalog
  // serves several file systems, and each converts the names below its root to invalidations.
  virtual void catalog_changed(const CatalogChange& change) = 0;
  // Invalidates held files at and below `path`, unless the catalog's memory has the same version,
  // and all directories. For changes that the catalog could not report, since it had no metadata or
  // had evicted it. Excludes mounts with a snapshot. Blocks until done.
  virtual void revalidate_held(const std::string& path) = 0;
  // The cache dropped wrong bytes of these versions: invalidates every node that shows one of them
  // (KernelInvalidation::pages). Blocks until done.
  virtual void bytes_dropped(const FileIdSet& files) = 0;
  // The name of the node gets another node at its next lookup, and `node` cannot be opened again.
  // For a damaged file that the kernel reads directly.
  virtual void retire(NodeId node) = 0;
  // Sets the listener. It runs on the threads of the three functions above, without locks held. It
  // must not wait unless KernelInvalidation::may_block is true. One call may still be running when
  // this returns.
  virtual void set_invalidation_listener(
      std::function<void(const KernelInvalidation&)> listener) = 0;
};

}  // namespace leat
