// SPDX-License-Identifier: Apache-2.0
// FileSystem: the namespace as nodes and open files, with the semantics that the folder promises
// (docs/semantics.md). Knows no kernel: the FUSE door is a translation of this face, and tests use
// it directly. Thread-safe.
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
#include "runtime/shared_records.h"
#include "runtime/task.h"

namespace leat {

using NodeId = uint64_t;
using FileIdSet = boost::unordered_flat_set<FileId, IdHash>;
inline constexpr NodeId kRootNode = 1;

// Which of `shards` (a power of two, more than one) parts of a table has the node. Numbers differ
// in their upper bits for sure (NodeTable), so they are mixed.
constexpr size_t shard_of_node(NodeId node, size_t shards) {
  return (node * 0x9e3779b97f4a7c15ull) >> (64 - std::countr_zero(shards));
}

// What "immutable" is to a kernel: a day, after which it asks and gets another.
inline constexpr Clock::duration kForever = std::chrono::hours(24);

struct NodeAttributes {
  NodeId node = 0;
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  WallTime mtime{};  // the epoch where the store has none
  mode_t mode = 0;   // with S_IFREG or S_IFDIR
  uid_t uid = 0;
  gid_t gid = 0;
  // How long name and attributes may be believed without asking again: what is left of freshness.
  Clock::duration valid_for{};
};

// A directory listing held still while it is read.
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
  // Cookies are positions: 0 is the start, others come from a cursor's position() and stay good as
  // long as this lives, which has to be longer than the cursor.
  virtual Listing::Cursor from(uint64_t cookie) const = 0;
  // At the first name that is greater.
  virtual Listing::Cursor after(std::string_view name) const = 0;
  virtual NodeId node() const = 0;
  // How long the listing may be believed: kForever for immutable directories, and for those of a
  // snapshot until another one is used.
  virtual Clock::duration valid_for() const = 0;
  // False once the mount was changed: who reads from the start has to open it anew.
  virtual bool newest() const = 0;
};

class OpenFile {
 public:
  virtual ~OpenFile() = default;
  virtual NodeId node() const = 0;
  // Null where it is no file of a store (`.leat`).
  virtual const FileRefPtr& ref() const = 0;
  // At most `size` bytes from `offset`; fewer only at the end of the file. kChanged when the
  // version is gone from the store and the bytes are not cached. The caller keeps the file alive
  // meanwhile.
  virtual std::optional<Bytes> try_read(uint64_t offset, uint64_t size) = 0;
  virtual Task<Result<Bytes>> read(Context context, uint64_t offset, uint64_t size) = 0;
  // To be asked before a read of the kernel's page cache: true where the kernel asks for it around
  // one page of a mapping and an error makes it ask for that page alone (prefetch/fault_guess.h).
  virtual bool refuses(uint64_t offset, uint64_t size) {
    static_cast<void>(offset);
    static_cast<void>(size);
    return false;
  }
  // The whole file as the kernel may read it by itself, or null.
  virtual std::shared_ptr<BackingFile> backing() = 0;
  // The same of what the kernel reads by itself since a predecessor's time (PageStore::hold).
  virtual std::shared_ptr<BackingFile> hold_backing() { return backing(); }
  // For a successor: how often the kernel has the node open now, and its number for what it reads
  // by itself.
  virtual void note_open(uint32_t opens, int32_t backing) = 0;
};

// What the kernel had open when a predecessor ended.
struct ReopenedFile {
  std::shared_ptr<OpenFile> file;
  uint32_t opens = 0;
  int32_t backing = 0;
};

// The process that asked.
struct Caller {
  pid_t pid = 0;  // 0: not known, or in another pid namespace
  std::string program{};
};

// Why a path could last not be looked up, listed, read or changed.
struct PathError {
  WallTime time{};
  std::string path{};  // in the folder, "train/0001.png"; "." for the folder itself
  StatusCode code = StatusCode::kInternal;
  std::string reason{};
  Caller caller{};
};

// A name that the door must tell the kernel to forget.
struct Invalidation {
  NodeId parent;  // 0: none, of the root
  std::string name;
  NodeId node;  // that the name stood for; 0 when it stood for none: the listing changed, too
  // Not the name: for how long it is believed, and the attributes of its node.
  // Without a parent: the attributes, and of a directory its names, alone.
  bool only_belief = false;
  bool directory = false;  // with `only_belief`: the node is one
  bool patient = false;    // the caller may wait
  // With `only_belief`: the bytes of the node that the kernel keeps may be wrong. It drops them;
  // while it reads the file by itself, the name gets another node.
  bool pages = false;
};

struct FileSystemOptions {
  std::function<Clock::time_point()> now = &Clock::now;
  // Where the nodes are kept for a successor; may be null, outlives the file system.
  SharedRecords* records = nullptr;
  // What all file systems of the host fetch ahead; may be null, outlives the file system.
  WindowBudget* windows = nullptr;
  // Of each reader of a file at most; 0: nothing is fetched ahead.
  uint64_t look_ahead_bytes = 64 * kMiB;
  // What the kernel asks for around a page of a mapping: its read-ahead. 0: that is not looked at.
  uint64_t read_around_bytes = 0;
  // Where look-ahead from file to file works; null: there is none. Outlives the file system.
  Executor* executor = nullptr;
};

class FileSystem {
 public:
  // Shows the namespace below `root` (normalised path). `store` may be null (no cache); the others
  // must outlive it, and it must outlive its open files and directories.
  static std::unique_ptr<FileSystem> create(std::string root, Catalog& catalog, Fetcher& fetcher,
                                            PageStore* store, FileSystemOptions options = {});
  virtual ~FileSystem() = default;

  // Takes over what a predecessor kept in `records`: its nodes with their numbers, and as the
  // kernel holds them. Once, before anything else, when the mounts are in the catalog. No store is
  // asked.
  virtual std::vector<ReopenedFile> take_over() = 0;

  // Each success adds one to the node's lookup count, which forget() takes back.
  virtual std::optional<Result<NodeAttributes>> try_lookup(NodeId parent,
                                                           std::string_view name) = 0;
  virtual Task<Result<NodeAttributes>> lookup(Context context, NodeId parent, std::string name) = 0;
  // For READDIRPLUS: as lookup, of an entry that the listing already holds. Node 0, and nothing
  // added, where the name is held in another version: the listing may be the older one.
  virtual NodeAttributes adopt(NodeId parent, const CatalogEntry& entry) = 0;
  virtual void forget(NodeId node, uint64_t count) = 0;
  // How long `name` may be believed missing from `parent`, counted from the moment that the store
  // was asked.
  virtual Clock::duration missing_age(NodeId parent, std::string_view name) = 0;

  // Of a file always at once: what is said of a version does not change. A directory may have to be
  // asked for again.
  virtual std::optional<Result<NodeAttributes>> try_attributes(NodeId node) = 0;
  virtual Task<Result<NodeAttributes>> attributes(Context context, NodeId node) = 0;

  virtual Task<Result<std::shared_ptr<OpenDirectory>>> open_directory(Context context,
                                                                      NodeId node) = 0;

  // For reading; kReadOnly with the reason for anything else. kChanged when the name now stands for
  // another version than the node does: the door answers ESTALE and the kernel looks up again.
  virtual std::optional<Result<std::shared_ptr<OpenFile>>> try_open(NodeId node, int flags) = 0;
  virtual Task<Result<std::shared_ptr<OpenFile>>> open(Context context, NodeId node, int flags) = 0;

  // The version that the node stands for, for reads without an open: nothing is asked, since the
  // kernel has looked its name up. Null where it has to be opened: of a local file, or of a node
  // that is not held.
  virtual std::shared_ptr<OpenFile> believed_file(NodeId node) = 0;

  // user.leat.source, user.leat.version, user.leat.cached_bytes, user.leat.last_error, …
  virtual std::vector<std::string> attribute_names(NodeId node) = 0;
  virtual Result<std::string> attribute_value(NodeId node, std::string_view name) = 0;

  // Why a change of `node`, or of `name` in it, is refused: always kReadOnly for now, with a
  // sentence for the log. Also remembered as the last error.
  virtual Status refuse_change(NodeId node, std::string_view operation,
                               std::string_view name = {}) = 0;
  // Remembers why `node` could not be read or, with a name, why that could not be looked up in it;
  // for user.leat.last_error of the node, and errors().
  virtual void note_error(NodeId node, std::string_view name, const Status& status,
                          const Caller& caller = {}) = 0;
  // Remembers the caller that met the node's last error, unless one is known.
  virtual void note_caller(NodeId node, const Caller& caller) = 0;
  // The last 1,000 of them, oldest first.
  virtual std::vector<PathError> errors() const = 0;

  // Where `node`, or with a name that name in it, is seen: absolute. Empty for a node that is not
  // held.
  virtual std::string path_of(NodeId node, std::string_view name = {}) const = 0;

  // Nodes that the kernel holds, the root included.
  virtual uint64_t nodes() const = 0;

  // The owner of the catalog passes on what Catalog::set_change_listener tells: one catalog serves
  // several file systems, and each turns the names below its root into invalidations.
  virtual void catalog_changed(const CatalogChange& change) = 0;
  // Tells of every file at and below `path` that the kernel holds and of which the catalog does not
  // say the same from memory, and of every directory: for what the catalog could not tell of, since
  // it had not known it, or had forgotten it. Not in mounts with a snapshot. Blocks as long as that
  // takes.
  virtual void compare_held(const std::string& path) = 0;
  // The cache dropped bytes of these versions because they were wrong: tells of every node that
  // shows one of them (Invalidation::pages). Blocks as long as that takes.
  virtual void bytes_dropped(const FileIdSet& files) = 0;
  // The name of the node gets another one at its next look-up, and `node` is opened no more: for
  // one whose open files the kernel reads by itself, from a file that is damaged.
  virtual void retire(NodeId node) = 0;
  // Called on the threads of the three above, without locks held; must not wait where that may not
  // (Invalidation::patient). One call may still be running when this returns.
  virtual void set_invalidation_listener(std::function<void(const Invalidation&)> listener) = 0;
};

}  // namespace leat
