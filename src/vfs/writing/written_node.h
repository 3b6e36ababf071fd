// SPDX-License-Identifier: Apache-2.0
// WrittenNode: a file or directory of a mount that takes writes. Its number stays over writes and
// renames, in contrast to a node of the file system below, which is one version of one path.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/semaphore.h"
#include "vfs/file_system.h"
#include "vfs/writing/staged/staged_file.h"

namespace leat {

class PartStream;
class WrittenFile;

struct ContentDigest {
  uint64_t size = 0;
  uint32_t crc = 0;  // CRC-32C

  friend bool operator==(const ContentDigest&, const ContentDigest&) = default;
};

// Attributes that the store keeps with this version of a file; null: none.
struct LearntAttributes {
  Version version;
  std::shared_ptr<const PosixAttributes> attributes;
};

struct WrittenNode;

struct WrittenName {
  std::shared_ptr<WrittenNode> parent;
  std::string name;
};

struct FormerName : WrittenName {
  uint64_t rename = 0;  // the pending change that ends it
};

struct WrittenNode {
  WrittenNode(NodeId number, FileKind what) : id(number), kind(what) {}

  const NodeId id;
  const FileKind kind;
  // Held by one change of the content or the name at a time. Of two nodes, the lower number first.
  Semaphore changing{1};

  // The rest is guarded by the table's mutex.
  std::shared_ptr<WrittenNode> parent{};  // null for the root
  std::string name{};
  std::vector<WrittenName> more_names{};  // of a file with hard links
  std::optional<uint64_t> links{};        // names in the store; nothing: one, or not known
  std::optional<FileIdentity> file_in_store{};
  bool linked = true;  // it has a name; false: removed, or replaced by a version of somebody else
  // The content of a save with an unknown outcome: an object with it is ours.
  std::optional<ContentDigest> attempted{};
  bool superseded = false;  // not linked, since somebody else replaced it
  uint64_t lookups = 0;
  // Children that the table holds; raw, since each child removes itself first.
  std::map<std::string, WrittenNode*, std::less<>> children{};

  // The node below, with one lookup count of ours; 0: none, or unknown after a rename. Valid while
  // `below_epoch` is the table's.
  NodeId below = 0;
  uint64_t below_epoch = 0;

  bool in_store = true;  // the store has something under its name
  // The names that it had before its pending renames, the oldest first: the store has it under
  // that.
  std::deque<FormerName> former{};
  // The store has another file under its name until its first save, which a rename replaced here.
  bool replaces = false;
  // The version that the name has in the store, as far as we know; not known: none.
  Version version{};
  std::shared_ptr<StagedFile> staged{};  // null: the content is that of `below`
  bool conflicted = false;  // somebody else wrote it; what is written from now on is not saved
  // Copies of `staged` to the cache that are under way; they keep it.
  unsigned fills = 0;
  // Changes of `staged` that the store has.
  uint64_t saved_changes = 0;
  bool unsaved = false;  // beside the content: a new file, or new attributes
  // The newest pending change of its content, or of the directory itself; 0: none.
  uint64_t queued = 0;
  // The upload of `staged` that has begun before its save; null: none.
  std::shared_ptr<PartStream> stream{};
  std::weak_ptr<WrittenFile> file{};  // its open file
  uint32_t opens = 0;

  // A directory: names in it were changed here, so listings may be older than the names.
  bool changed = false;
  // Changes of names and versions in it. A lookup that began before one has an old answer.
  uint64_t changes = 0;

  // A directory: whether the store keeps attributes of names in it; nothing: not known yet.
  std::optional<bool> keeps_attributes{};
  // A directory: whether each lookup asks the store; nothing: not known yet.
  std::optional<bool> always_asks{};
  // A directory: its last opened listing, and what was learnt ahead of lookups in its order.
  std::weak_ptr<const Listing> listing{};
  std::map<std::string, LearntAttributes, std::less<>> learnt{};
  // A directory: names that are removed here, and in the store later, with that change's number.
  std::map<std::string, uint64_t, std::less<>> removed{};

  // Attributes that were set here, or that the store keeps.
  bool attributes_known = false;  // the store was asked
  bool is_symlink = false;
  mode_t special = 0;  // S_IFIFO, S_IFSOCK, S_IFCHR or S_IFBLK
  dev_t device = 0;
  std::optional<mode_t> mode{};
  std::optional<uid_t> uid{};
  std::optional<gid_t> gid{};
  std::optional<WallTime> atime{}, mtime{}, ctime{};

  bool is_directory() const { return kind == FileKind::kDirectory; }
  // Returns whether the file system below does not know it as it is.
  bool is_own() const {
    return staged != nullptr || (is_directory() && !in_store) || !former.empty();
  }
  bool is_dirty() const { return staged && (unsaved || staged->changes() != saved_changes); }
};
using WrittenNodePtr = std::shared_ptr<WrittenNode>;

}  // namespace leat
