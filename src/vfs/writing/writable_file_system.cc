// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: names and attributes.
#include "vfs/writing/writable_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "telemetry/log.h"
#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_links.h"

namespace leat {
namespace {

// The kernel asks again after this time for what is being written here.
constexpr Clock::duration kWrittenFor = std::chrono::seconds(1);

// Lookups of a name that changes meanwhile.
constexpr int kLookupAttempts = 10;

// Returns whether the store's name is not shown, since the change is not there yet.
bool hides(const WrittenNode& directory, std::string_view name) {
  return !directory.in_store || directory.removed.contains(name);
}

Error missing(std::string_view name) {
  return error(StatusCode::kNotFound, fmt::format("there is no {}", name));
}

}  // namespace

WritableFileSystem::WritableFileSystem(std::unique_ptr<FileSystem> below, std::string root,
                                       Catalog& catalog, PageStore* store, Executor& executor,
                                       WritingOptions options)
    : below_(std::move(below)),
      root_path_(std::move(root)),
      catalog_(catalog),
      store_(store),
      executor_(executor),
      options_(std::move(options)),
      nodes_([this](NodeId node, uint64_t count) { below_->forget(node, count); }),
      posix_(make_posix_changes(*this)) {}

WritableFileSystem::~WritableFileSystem() {
  fills_stop_.request_stop();
  fills_.close();
  executor_.block_on(fills_.wait_idle());
  if (uploads_) executor_.block_on(uploads_->stop());
}

// ---- names

WrittenNodePtr WritableFileSystem::find(NodeId node) const {
  std::lock_guard lock(nodes_.mutex());
  return nodes_.find(node);
}

NodeId WritableFileSystem::below_id(NodeId node) const {
  std::lock_guard lock(nodes_.mutex());
  const WrittenNodePtr held = nodes_.find(node);
  return held && nodes_.has_below(*held) ? held->below : 0;
}

std::string WritableFileSystem::full_path(const WrittenNode& node, std::string_view name) const {
  std::string path = root_path_ == "/" ? std::string() : root_path_;
  {
    std::lock_guard lock(nodes_.mutex());
    path += nodes_.path_of(node);
  }
  if (!name.empty()) path.append("/").append(name);
  return path.empty() ? "/" : path;
}

std::string WritableFileSystem::path_of(NodeId id, std::string_view name) const {
  const WrittenNodePtr node = find(id);
  return node ? full_path(*node, name) : std::string();
}

NodeAttributes WritableFileSystem::describe(const WrittenNode& node, NodeAttributes below) const {
  below.node = node.id;
  below.kind = node.kind;
  if (node.staged) {
    below.size = node.staged->size();
    below.valid_for = kWrittenFor;
  }
  const std::optional<WallTime> written =
      node.staged ? node.staged->direct_write_time() : std::nullopt;
  if (below.mode == 0) below.mode = node.is_directory() ? S_IFDIR | 0755 : S_IFREG | 0644;
  if (node.is_symlink) below.mode = S_IFLNK | 0777;
  if (node.special != 0) below.mode = node.special | 0644;
  below.device = node.device;
  below.links = node.links;
  if (node.mode) below.mode = (below.mode & S_IFMT) | *node.mode;
  if (node.uid) below.uid = *node.uid;
  if (node.gid) below.gid = *node.gid;
  if (node.mtime) below.mtime = *node.mtime;
  below.atime = node.atime;
  below.ctime = node.ctime;
  if (written) below.mtime = *(below.ctime = written);
  return below;
}

bool WritableFileSystem::must_find(const WrittenNode& parent, const WrittenNode& node) const {
  if (needs_below(node)) return true;
  const bool is_stored = node.in_store || !node.is_directory();
  return !node.former.empty() && !node.staged && is_stored && must_learn(parent, node.name);
}

NodeAttributes WritableFileSystem::known_below(const WrittenNode& node) const {
  if (node.below == 0) return {};
  const auto known = below_->try_attributes(node.below);
  return known && *known ? **known : NodeAttributes{};
}

Task<Result<NodeId>> WritableFileSystem::find_below(Context context, WrittenNodePtr node,
                                                    bool removed_too) {
  std::optional<NodeId> below;
  while (!below) {
    LEAT_CO_TRY(below, co_await find_below_once(context, node, removed_too));
  }
  co_return *below;
}

Task<Result<std::optional<NodeId>>> WritableFileSystem::find_below_once(Context context,
                                                                        WrittenNodePtr node,
                                                                        bool removed_too) {
  // The names that the store may have it under, the likeliest first.
  std::vector<WrittenName> names;
  uint64_t epoch;
  {
    std::lock_guard lock(nodes_.mutex());
    epoch = nodes_.epoch();
    if (nodes_.has_below(*node)) co_return node->below;
    if (!node->linked && !removed_too) co_return forgotten(node->id);
    if (node->is_directory() && !node->in_store) co_return missing(node->name);
    for (const FormerName& former : node->former) names.push_back(former);
    names.push_back({node->parent, node->name});
  }
  Result<NodeAttributes> found = error(StatusCode::kNotFound, names.back().name);
  bool may_be_renamed = false;
  for (const WrittenName& name : names) {
    // Its former directory is in the store still, though it may be removed here.
    const bool is_former = &name != &names.back();
    const Result<NodeId> directory =
        co_await find_below(context, name.parent, removed_too || is_former);
    if (may_be_renamed && directory) {
      co_await refresh_own(context, join_path(below_->path_of(*directory, {}), name.name));
    }
    if (directory) {
      found = co_await below_->lookup(context, *directory, name.name);
    } else {
      found = Error(directory.error());
    }
    if (found || found.error().code() != StatusCode::kNotFound) break;
    may_be_renamed = true;
  }
  if (!found) {
    std::lock_guard lock(nodes_.mutex());
    if (nodes_.epoch() != epoch) co_return std::nullopt;
    co_return Error(found.error());
  }
  const FileRefPtr version = below_->version_of(found->node);
  NodeId unused = found->node;
  bool same = node->is_directory() ? !version : version != nullptr;
  bool outdated;
  {
    std::lock_guard lock(nodes_.mutex());
    outdated = nodes_.epoch() != epoch;
    // After a restart the version of a file that is only renamed is not known.
    const bool is_new = same && !outdated && !node->is_directory() && !node->former.empty();
    if (is_new && (may_be_renamed || !node->version.known())) node->version = version->version;
    if (!node->is_directory()) same = same && version->version == node->version;
    same = same && (node->linked || removed_too);
    if (same && !outdated) unused = nodes_.set_below(*node, found->node);
  }
  if (unused != 0) below_->forget(unused, 1);
  if (outdated) co_return std::nullopt;
  if (same) co_return found->node;
  co_return error(StatusCode::kVersionChanged, full_path(*node) + " is another version now");
}

std::optional<Result<NodeAttributes>> WritableFileSystem::adopt(const WrittenNodePtr& parent,
                                                                std::string_view name,
                                                                const NodeAttributes& found,
                                                                uint64_t changes) {
  const FileRefPtr version = below_->version_of(found.node);
  NodeId unused = 0;
  NodeAttributes shown;
  bool outdated = false;
  {
    std::lock_guard lock(nodes_.mutex());
    outdated = nodes_.state_of(*parent) != changes;
    const bool shown_below = nodes_.child(*parent, name) || !hides(*parent, name);
    if (!parent->linked || outdated || !shown_below) {
      outdated = outdated || !shown_below;
      unused = found.node;
    } else {
      WrittenNodePtr node = nodes_.child(*parent, name);
      const bool own = node && node->is_own();
      const bool same = node && !own && node->kind == found.kind &&
                        (node->is_directory() || node->below == found.node ||
                         (version && version->version == node->version));
      if (node && !own && !same) {
        nodes_.unlink(*node, *parent, name);  // open files keep it
        node->superseded = !node->linked;
        node = nullptr;
      }
      if (!node) node = nodes_.add(parent, std::string(name), found.kind);
      if (own) {
        unused = found.node;
      } else {
        // The count of this lookup, or that of the one before.
        unused = nodes_.set_below(*node, found.node);
        if (version) node->version = version->version;
      }
      ++node->lookups;
      shown = describe(*node, found);
    }
  }
  if (unused != 0) below_->forget(unused, 1);
  if (outdated) return std::nullopt;
  if (shown.node == 0) return forgotten(parent->id);
  return shown;
}

bool WritableFileSystem::note_missing(const WrittenNodePtr& parent, std::string_view name,
                                      uint64_t changes) {
  std::lock_guard lock(nodes_.mutex());
  if (nodes_.state_of(*parent) != changes) return false;
  const WrittenNodePtr node = nodes_.child(*parent, name);
  if (!node || node->is_own()) return true;
  if (nodes_.has_own_below(*node)) {
    node->in_store = false;  // what is in it here is shown, and makes it again in the store
    return false;
  }
  nodes_.unlink(*node, *parent, name);
  return true;
}

uint64_t WritableFileSystem::changes_of(const WrittenNode& directory) const {
  std::lock_guard lock(nodes_.mutex());
  return nodes_.state_of(directory);
}

std::optional<Result<NodeAttributes>> WritableFileSystem::try_lookup(NodeId id,
                                                                     std::string_view name) {
  WrittenNodePtr parent;
  NodeId directory = 0;
  uint64_t changes = 0;
  {
    std::lock_guard lock(nodes_.mutex());
    parent = nodes_.find(id);
    if (!parent) return forgotten(id);
    const WrittenNodePtr node = nodes_.child(*parent, name);
    if (node && node->is_own()) {
      if (must_find(*parent, *node)) return std::nullopt;
      ++node->lookups;
      return describe(*node, known_below(*node));
    }
    if (hides(*parent, name)) return missing(name);
    if (!nodes_.has_below(*parent) || must_learn(*parent, name)) return std::nullopt;
    if (parent->always_asks.value_or(true)) return std::nullopt;
    directory = parent->below;
    changes = nodes_.state_of(*parent);
  }
  std::optional<Result<NodeAttributes>> found = below_->try_lookup(directory, name);
  if (!found) return std::nullopt;
  if (*found) return adopt(parent, name, **found, changes);
  const bool missing = found->error().code() == StatusCode::kNotFound;
  if (missing && !note_missing(parent, name, changes)) return std::nullopt;
  return found;
}

Task<Result<NodeAttributes>> WritableFileSystem::lookup(Context context, NodeId id,
                                                        std::string name) {
  Result<NodeAttributes> found = error(StatusCode::kBusy, name + " changes all the time");
  WrittenNodePtr parent;
  for (int attempt = 0; attempt < kLookupAttempts; ++attempt) {
    if (auto known = try_lookup(id, name)) co_return *std::move(known);
    parent = find(id);
    if (!parent) co_return forgotten(id);
    WrittenNodePtr renamed;
    {
      std::lock_guard lock(nodes_.mutex());
      renamed = nodes_.child(*parent, name);
      if (renamed && !must_find(*parent, *renamed)) renamed = nullptr;
    }
    if (renamed) {
      LEAT_CO_CHECK_OK(co_await find_below(context, renamed));
      co_await learn_attributes(context, parent, name);
      std::lock_guard lock(nodes_.mutex());
      if (nodes_.child(*parent, name) != renamed || !renamed->is_own()) continue;
      ++renamed->lookups;
      co_return describe(*renamed, known_below(*renamed));
    }
    const uint64_t changes = changes_of(*parent);  // first: the directory may be renamed
    LEAT_CO_TRY(const NodeId directory, co_await find_below(context, parent));
    co_await refresh_linked(context, parent, name);
    found = co_await below_->lookup(context, directory, name);
    if (found) {
      const std::optional<Result<NodeAttributes>> adopted = adopt(parent, name, *found, changes);
      if (!adopted) continue;
      found = *adopted;
      break;
    }
    if (found.error().code() != StatusCode::kNotFound) co_return found;
    if (note_missing(parent, name, changes)) co_return found;
  }
  if (found) {
    co_await learn_attributes(context, parent, name);
    co_return describe_learnt(*parent, name, *found);
  }
  co_return found;
}

NodeAttributes WritableFileSystem::lookup_from_listing(NodeId id, const CatalogEntry& entry) {
  NodeAttributes unknown;
  unknown.kind = entry.info.kind;
  WrittenNodePtr parent;
  NodeId directory = 0;
  uint64_t changes = 0;
  {
    std::lock_guard lock(nodes_.mutex());
    parent = nodes_.find(id);
    if (!parent || parent->changed || !nodes_.has_below(*parent)) return unknown;
    if (must_learn(*parent, entry.info.name)) return unknown;
    if (parent->always_asks.value_or(true)) return unknown;
    // An entry of open_directory(), which the file system below does not know.
    if (!entry.ref && entry.info.kind == FileKind::kFile) return unknown;
    directory = parent->below;
    changes = nodes_.state_of(*parent);
  }
  const NodeAttributes found = below_->lookup_from_listing(directory, entry);
  if (found.node == 0) return unknown;
  const auto adopted = adopt(parent, entry.info.name, found, changes);
  return adopted ? adopted->value_or(unknown) : unknown;
}

Clock::duration WritableFileSystem::negative_ttl(NodeId parent, std::string_view name) {
  const NodeId directory = below_id(parent);
  return directory == 0 ? Clock::duration::zero() : below_->negative_ttl(directory, name);
}

std::optional<Result<NodeAttributes>> WritableFileSystem::try_attributes(NodeId id) {
  NodeId below = 0;
  WrittenNodePtr node;
  {
    std::lock_guard lock(nodes_.mutex());
    node = nodes_.find(id);
    if (!node) return forgotten(id);
    if (needs_below(*node)) return std::nullopt;
    if (node->is_own() || (node->below == 0 && !node->linked)) {
      return describe(*node, known_below(*node));
    }
    if (node->linked && !nodes_.has_below(*node)) return std::nullopt;
    if (id == kRootNode && !node->attributes_known) return std::nullopt;
    below = node->below;
  }
  std::optional<Result<NodeAttributes>> known = below_->try_attributes(below);
  if (!known || !*known) return known;
  std::lock_guard lock(nodes_.mutex());
  return describe(*node, **known);
}

Task<Result<NodeAttributes>> WritableFileSystem::attributes(Context context, NodeId id) {
  if (auto known = try_attributes(id)) co_return *std::move(known);
  const WrittenNodePtr node = find(id);
  if (!node) co_return forgotten(id);
  if (id == kRootNode) co_await learn_root(context);
  LEAT_CO_TRY(const NodeId below, co_await find_below(context, node));
  Result<NodeAttributes> found = co_await below_->attributes(context, below);
  if (!found) co_return found;
  std::lock_guard lock(nodes_.mutex());
  co_return describe(*node, *found);
}

// ---- forwarded by the number below

FileRefPtr WritableFileSystem::version_of(NodeId node) const {
  const NodeId below = below_id(node);
  return below == 0 ? nullptr : below_->version_of(below);
}

std::vector<std::string> WritableFileSystem::attribute_names(NodeId node) {
  const NodeId below = below_id(node);
  return below == 0 ? std::vector<std::string>() : below_->attribute_names(below);
}

Result<std::string> WritableFileSystem::attribute_value(NodeId node, std::string_view name) {
  const NodeId below = below_id(node);
  if (below != 0) return below_->attribute_value(below, name);
  return error(StatusCode::kNotFound, fmt::format("the store has not this file yet"));
}

Status WritableFileSystem::reject_change(NodeId node, std::string_view operation,
                                         std::string_view name) {
  Status status(StatusCode::kUnsupported,
                fmt::format("cannot {} {}: a mount has no hard links and no special files",
                            operation, path_of(node, {})));
  record_error(node, name, status, {});
  return status;
}

void WritableFileSystem::record_error(NodeId id, std::string_view name, const Status& status,
                                      const Caller& caller) {
  if (const NodeId below = below_id(id)) return below_->record_error(below, name, status, caller);
  // A file that the store has not: a name of its directory.
  const WrittenNodePtr node = find(id);
  if (!node || !node->parent) return;
  std::string own;
  NodeId directory = 0;
  {
    std::lock_guard lock(nodes_.mutex());
    own = node->name;
    directory = node->parent->below;
  }
  if (directory != 0) below_->record_error(directory, own, status, caller);
}

void WritableFileSystem::record_caller(NodeId node, const Caller& caller) {
  if (const NodeId below = below_id(node)) below_->record_caller(below, caller);
}

void WritableFileSystem::retire(NodeId node) {
  if (const NodeId below = below_id(node)) below_->retire(below);
}

std::optional<KernelInvalidation> WritableFileSystem::translate(
    const KernelInvalidation& name) const {
  KernelInvalidation own = name;
  std::lock_guard lock(nodes_.mutex());
  if (name.parent == 0) {
    const WrittenNodePtr node = nodes_.by_below(name.node);
    if (!node) return std::nullopt;
    own.node = node->id;
    return own;
  }
  const WrittenNodePtr parent = nodes_.by_below(name.parent);
  if (!parent) return std::nullopt;
  own.parent = parent->id;
  const std::string path = root_path_ + nodes_.stored_path_of(*parent) + "/" + name.name;
  if (own_changes_.contains(path)) return std::nullopt;
  const WrittenNodePtr child = nodes_.child(*parent, name.name);
  // Content that is written here wins until it is saved.
  if (child && child->staged) return std::nullopt;
  const WrittenNodePtr node = name.node == 0 ? nullptr : nodes_.by_below(name.node);
  own.node = node ? node->id : child ? child->id : 0;
  // A name that was made here keeps its entry, which may be a working directory.
  if (name.node == 0 && child) own.expire_only = true;
  return own;
}

void WritableFileSystem::set_invalidation_listener(
    std::function<void(const KernelInvalidation&)> listener) {
  if (!listener) return below_->set_invalidation_listener({});
  below_->set_invalidation_listener(
      [this, listener = std::move(listener)](const KernelInvalidation& name) {
        if (const auto own = translate(name)) listener(*own);
      });
}

}  // namespace leat
