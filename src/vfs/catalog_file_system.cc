// SPDX-License-Identifier: Apache-2.0
#include "vfs/catalog_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "catalog/mount_table.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "vfs/forgotten_node.h"
#include "vfs/listed_directory.h"

namespace leat {
namespace {

Counter opens_total("leat_vfs_opens_total", "Opens of files that succeeded");
Counter changed_total("leat_vfs_changed_total",
                      "Opens and reads that found another version of the object than expected");
Counter rejected_total("leat_vfs_readonly_rejections_total",
                       "Changes rejected because the mount is read-only");

}  // namespace

// ---- names

std::string CatalogFileSystem::path_of(const Node& node) const {
  std::vector<const Node*> chain;
  for (const Node* at = &node; at->parent; at = at->parent.get()) chain.push_back(at);
  std::string path = root_path_ == "/" ? std::string() : root_path_;
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) path.append("/").append((*at)->name);
  return path.empty() ? "/" : path;
}

std::string CatalogFileSystem::path_of(NodeId id, std::string_view name) const {
  const NodePtr node = nodes_.find(id);
  if (!node) return {};
  return name.empty() ? path_of(*node) : child_path(*node, name);
}

std::string CatalogFileSystem::child_path(const Node& parent, std::string_view name) const {
  return join_path(path_of(parent), name);
}

Freshness CatalogFileSystem::freshness_of(const Node& node, const MountPtr& mount,
                                          std::string_view name) const {
  const MountPtr now = latest(mount);
  if (!now) return {};
  if (now->entry.policy.paths.empty()) return now->freshness_of("");
  return now->freshness_of(path_below(child_path(node, name), now->entry.path));
}

std::vector<ReopenedFile> CatalogFileSystem::take_over() {
  std::vector<MountPtr> mounts = catalog_.mounts();
  auto mount_at = [&mounts](const std::string& path) -> MountPtr {
    auto at =
        std::ranges::find(mounts, path, [](const MountPtr& mount) { return mount->entry.path; });
    return at == mounts.end() ? nullptr : *at;
  };
  std::vector<ReopenedFile> files;
  for (NodeTable::Reopened& open : nodes_.take_over(mount_at)) {
    if (open.node->kind != FileKind::kFile) continue;
    files.push_back({.file = std::make_shared<VersionedFile>(deps_, open.node, open.node->ref),
                     .opens = open.opens,
                     .backing = open.backing});
  }
  return files;
}

std::optional<Result<NodeAttributes>> CatalogFileSystem::try_lookup(NodeId parent,
                                                                    std::string_view name) {
  const NodePtr directory = nodes_.find(parent);
  if (!directory) return forgotten(parent);
  const uint32_t as_of = changes_.load();
  std::optional<Result<CatalogEntry>> entry = catalog_.try_lookup(child_path(*directory, name));
  if (!entry) return std::nullopt;
  if (!*entry) return error(std::move(*entry).error());
  return describe_new(nodes_.find_or_add(directory, name, **entry, as_of), **entry);
}

Task<Result<NodeAttributes>> CatalogFileSystem::lookup(Context context, NodeId parent,
                                                       std::string name) {
  const NodePtr directory = nodes_.find(parent);
  if (!directory) co_return forgotten(parent);
  const uint32_t as_of = changes_.load();
  Result<CatalogEntry> entry = co_await catalog_.lookup(context, child_path(*directory, name));
  if (!entry) co_return error(std::move(entry).error());
  co_return describe_new(nodes_.find_or_add(directory, name, *entry, as_of), *entry);
}

NodeAttributes CatalogFileSystem::describe_new(const NodePtr& node,
                                               const CatalogEntry& entry) const {
  return describe(
      *node,
      NodeFacts{.mount = entry.mount, .mtime = entry.info.mtime, .fresh_until = entry.fresh_until});
}

NodeAttributes CatalogFileSystem::lookup_from_listing(NodeId parent, const CatalogEntry& entry) {
  NodePtr directory = nodes_.find(parent);
  // The kernel holds a directory that it reads; if it does not, the name still gets a node.
  if (!directory) directory = nodes_.root();
  const NodePtr node = nodes_.find_or_add_listed(directory, entry.info.name, entry);
  return node ? describe_new(node, entry) : NodeAttributes{.kind = entry.info.kind};
}

Clock::duration CatalogFileSystem::negative_ttl(NodeId parent, std::string_view name) {
  const NodePtr node = nodes_.find(parent);
  const std::optional<NodeFacts> facts = nodes_.facts(parent);
  if (!node || !facts || !facts->mount) return Clock::duration::zero();
  const Clock::duration own = freshness_of(*node, facts->mount, name).effective_negative_ttl();
  if (facts->mount->snapshot) return own;
  const std::string key = directory_key_in_mount(*facts->mount, path_of(*node));
  return std::min(own, facts->mount->source->ttl_max(key).missing);
}

// ---- attributes

Clock::duration CatalogFileSystem::valid_for(Clock::time_point fresh_until,
                                             const MountPtr& mount) const {
  if (!is_latest(mount.get())) return Clock::duration::zero();
  if (fresh_until == Clock::time_point::max()) return kForever;
  const Clock::time_point now = now_();
  if (fresh_until <= now) return Clock::duration::zero();
  return std::min<Clock::duration>(fresh_until - now, kForever);
}

NodeAttributes CatalogFileSystem::describe(const Node& node, const NodeFacts& facts) const {
  static const Policy kNoMount;
  const MountPtr mount = latest(facts.mount);
  const Policy& policy = mount ? mount->entry.policy : kNoMount;
  const bool directory = node.kind == FileKind::kDirectory;
  const mode_t mode =
      directory ? S_IFDIR | (0777 & ~policy.umask) : S_IFREG | (0666 & ~policy.umask);
  return {
      .node = node.id,
      .kind = node.kind,
      .size = directory ? 0 : node.ref->size,
      .mtime = facts.mtime.value_or(WallTime{}),
      .mode = mode,
      .uid = policy.uid,
      .gid = policy.gid,
      .valid_for = valid_for(facts.fresh_until, facts.mount),
  };
}

std::optional<Result<NodeAttributes>> CatalogFileSystem::try_attributes(NodeId id) {
  const NodePtr node = nodes_.find(id);
  const std::optional<NodeFacts> facts = nodes_.facts(id);
  if (!node || !facts) return forgotten(id);
  if (node->kind == FileKind::kFile) return describe(*node, *facts);
  if (facts->fresh_until <= now_() || !is_latest(facts->mount.get())) return std::nullopt;
  return describe(*node, *facts);
}

Task<Result<NodeAttributes>> CatalogFileSystem::attributes(Context context, NodeId id) {
  if (auto known = try_attributes(id)) co_return *std::move(known);
  const NodePtr node = nodes_.find(id);
  if (!node) co_return forgotten(id);
  Result<CatalogEntry> entry = co_await catalog_.lookup(context, path_of(*node));
  if (!entry) co_return error(std::move(entry).error());
  if (!entry->info.is_directory()) {
    changed_total.add();
    co_return error(StatusCode::kVersionChanged,
                    path_of(*node) + " was a directory and is now a file");
  }
  nodes_.refresh(id, *entry, kAsOfUnknown);
  co_return describe(*node, NodeFacts{.mount = entry->mount,
                                      .mtime = entry->info.mtime,
                                      .fresh_until = entry->fresh_until});
}

Task<Result<std::shared_ptr<OpenDirectory>>> CatalogFileSystem::open_directory(Context context,
                                                                               NodeId id) {
  const NodePtr node = nodes_.find(id);
  if (!node) co_return forgotten(id);
  Result<ListingPtr> listing = co_await catalog_.list(context, path_of(*node));
  if (!listing) co_return error(std::move(listing).error());
  const MountPtr& mount = (*listing)->mount();
  const Clock::duration valid = valid_for((*listing)->fresh_until(), mount);
  // Lets a change of the mount find the root, which may never have been looked up.
  if (const auto facts = nodes_.facts(id); facts && !facts->mount && mount) {
    CatalogEntry root;
    root.mount = mount;
    root.fresh_until = Clock::time_point::min();
    nodes_.refresh(id, root, kAsOfUnknown);
  }
  co_return std::make_shared<ListedDirectory>(id, std::move(*listing), valid);
}

// ---- files

Result<> CatalogFileSystem::may_open(const Node& node, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) return error(reject_change(node.id, "open for writing", {}));
  if ((flags & O_TRUNC) != 0) return error(reject_change(node.id, "truncate", {}));
  if ((flags & O_CREAT) != 0) return error(reject_change(node.id, "create", {}));
  if (node.kind == FileKind::kDirectory) {
    return error(StatusCode::kIsDirectory, path_of(node) + " is a directory");
  }
  return {};
}

Result<CatalogFileSystem::Opening> CatalogFileSystem::find_version(
    const NodePtr& node, const Result<CatalogEntry>& entry, uint32_t as_of) {
  if (!entry && entry.error().code() != StatusCode::kNotFound) return error(entry.error());
  if (nodes_.is_retired(node->id)) {
    return error(
        StatusCode::kVersionChanged,
        fmt::format("{} was damaged in the cache; look its name up again", path_of(*node)));
  }
  if (!entry || entry->info.is_directory() || entry->ref->id != node->ref->id) {
    changed_total.add();
    nodes_.expire(node->id);
    return error(StatusCode::kVersionChanged,
                 fmt::format("{} is {} since its name was looked up", path_of(*node),
                             entry ? "another version" : "removed"));
  }
  nodes_.refresh(node->id, *entry, as_of);
  // In an immutable mount the kernel may read the file itself. Any other file is compared after
  // each read, since it may be written while it is open.
  const bool immutable = freshness_of(*node, entry->mount).mode == Freshness::Mode::kImmutable;
  return Opening{node, entry->ref, entry->index, immutable};
}

// Returns the node's version if its name is still fresh and nothing has changed since the lookup:
// then the open sends no request. Returns nothing otherwise, or if the mount has policies of paths
// that differ.
std::optional<CatalogFileSystem::Opening> CatalogFileSystem::fresh_version(NodeId id, int flags) {
  if ((flags & (O_ACCMODE | O_TRUNC | O_CREAT)) != O_RDONLY) return std::nullopt;
  std::optional<Opening> opening;
  const uint32_t now = changes_.load();
  nodes_.inspect(id, [&](const NodePtr& node, const NodeFacts& facts) {
    if (facts.as_of != now || facts.retired) return;
    const Mount* const mount = facts.mount.get();
    if (node->kind != FileKind::kFile || node->ref->cache == CacheUse::kBypass) return;
    if (mount == nullptr || !mount->entry.policy.paths.empty() || !facts.same_policy) return;
    const Freshness::Mode mode = mount->freshness_of("").mode;
    if (mode == Freshness::Mode::kValidate || facts.fresh_until <= now_()) return;
    if (!is_latest(mount)) return;
    // The catalog may have it by now.
    if (deps_.next && facts.place == kNoIndex) return;
    opening = {node, node->ref, facts.place, mode == Freshness::Mode::kImmutable};
  });
  return opening;
}

// A local file that is not cached is read in place. A file of another process is requested by fd
// passing, unless our own cache has all of it.
bool CatalogFileSystem::may_have_local_file(const FileRef& ref) const {
  if (ref.cache == CacheUse::kBypass) return true;
  if (!deps_.fetcher.has_local_file(ref)) return false;
  const bool ours = store_ != nullptr && ref.cache == CacheUse::kDisk;
  return !ours || !store_->missing(ref, {0, ref.size}).empty();
}

// Files received by fd passing need no prefetch of the next files.
std::shared_ptr<OpenFile> CatalogFileSystem::make_file(const Opening& opening,
                                                       SourceFilePtr local_file) {
  const bool passed = local_file && opening.ref->cache != CacheUse::kBypass;
  if (deps_.next && !passed) deps_.next->on_open(*opening.node, opening.place);
  auto file = std::make_shared<VersionedFile>(deps_, opening.node, opening.ref, opening.immutable);
  file->read_from(std::move(local_file));
  opens_total.add();
  if (deps_.epochs) deps_.epochs->on_open(*opening.node);
  return file;
}

std::optional<Result<std::shared_ptr<OpenFile>>> CatalogFileSystem::try_open(NodeId id, int flags) {
  if (const std::optional<Opening> opening = fresh_version(id, flags)) {
    if (may_have_local_file(*opening->ref)) return std::nullopt;
    return make_file(*opening, nullptr);
  }
  const NodePtr node = nodes_.find(id);
  const std::optional<NodeFacts> facts = nodes_.facts(id);
  if (!node || !facts) return forgotten(id);
  if (auto allowed = may_open(*node, flags); !allowed) return error(allowed.error());
  // Such a mount requests the version from the store at each open, however recent the lookup.
  if (freshness_of(*node, facts->mount).mode == Freshness::Mode::kValidate) return std::nullopt;
  const uint32_t as_of = changes_.load();
  std::optional<Result<CatalogEntry>> entry = catalog_.try_lookup(path_of(*node));
  if (!entry) return std::nullopt;
  const bool file = *entry && (**entry).ref;
  if (file && may_have_local_file(*(**entry).ref)) return std::nullopt;
  Result<Opening> opening = find_version(node, *entry, as_of);
  if (!opening) return error(opening.error());
  return make_file(*opening, nullptr);
}

std::shared_ptr<OpenFile> CatalogFileSystem::open_cached_version(NodeId id) {
  NodePtr held;
  uint64_t place = kNoIndex;
  nodes_.inspect(id, [&](const NodePtr& node, const NodeFacts& facts) {
    if (!facts.same_policy) return;
    held = node;
    place = facts.place;
  });
  if (!held || held->kind != FileKind::kFile || may_have_local_file(*held->ref)) return nullptr;
  if (deps_.next) deps_.next->on_open(*held, place);
  if (deps_.epochs) deps_.epochs->on_open(*held);
  return std::make_shared<VersionedFile>(deps_, held, held->ref);
}

Task<Result<std::shared_ptr<OpenFile>>> CatalogFileSystem::open(Context context, NodeId id,
                                                                int flags) {
  const NodePtr node = nodes_.find(id);
  if (!node) co_return forgotten(id);
  if (auto allowed = may_open(*node, flags); !allowed) co_return error(allowed.error());
  std::optional<Opening> opening = fresh_version(id, flags);
  if (!opening) {
    const uint32_t as_of = changes_.load();
    Result<CatalogEntry> entry = co_await catalog_.lookup_for_open(context, path_of(*node));
    Result<Opening> found = find_version(node, entry, as_of);
    if (!found) co_return Error(found.error());
    opening = *std::move(found);
  }
  if (!may_have_local_file(*opening->ref)) co_return make_file(*opening, nullptr);
  const FileRefPtr ref = opening->ref;
  Result<SourceFilePtr> local_file = co_await deps_.fetcher.open_file(context, ref);
  if (local_file) co_return make_file(*opening, *std::move(local_file));
  // Without fd passing the file is read through the fetcher.
  if (ref->cache != CacheUse::kBypass) co_return make_file(*opening, nullptr);
  Status status = local_file.error().with_context("cannot open " + path_of(*node));
  if (status.code() == StatusCode::kVersionChanged) on_version_gone(*node, status);
  co_return error(std::move(status));
}

void CatalogFileSystem::on_version_gone(const Node& node, const Status& status) {
  changed_total.add();
  nodes_.expire(node.id);
  // One line a version, however many readers continue.
  if (!errors_.find(node.id)) log::warning("{}", status.to_string());
  record_error(node.id, {}, status, {});
  catalog_.report_changed(path_of(node));
}

// ---- rejections and invalidations

Status CatalogFileSystem::reject_change(NodeId id, std::string_view operation,
                                        std::string_view name) {
  const NodePtr node = nodes_.find(id);
  const std::optional<NodeView> seen = view(id);
  std::string text = fmt::format(
      "cannot {} {}: the mount is read-only, since it was not made with "
      "--writable",
      operation, node ? path_of(*node) : fmt::format("node {}", id));
  if (seen && !source_of(*seen).empty()) {
    text += fmt::format("; 'leat cp' writes to {}, 'leat refresh' shows what it wrote",
                        source_of(*seen));
  }
  Status status(StatusCode::kReadOnly, std::move(text));
  rejected_total.add();
  record_error(id, name, status, {});
  return status;
}

void CatalogFileSystem::record_error(NodeId id, std::string_view name, const Status& status,
                                     const Caller& caller) {
  const NodePtr node = nodes_.find(id);
  if (!node) return errors_.record(id, fmt::format("node {}", id), status, caller);
  errors_.record(id, name.empty() ? path_of(*node) : child_path(*node, name), status, caller);
}

std::optional<NodeView> CatalogFileSystem::view(NodeId id) {
  const NodePtr node = nodes_.find(id);
  const std::optional<NodeFacts> facts = nodes_.facts(id);
  if (!node || !facts) return std::nullopt;
  return NodeView{.node = node,
                  .facts = *facts,
                  .store = store_,
                  .freshness = freshness_of(*node, facts->mount),
                  .last_error = errors_.find(id)};
}

std::vector<std::string> CatalogFileSystem::attribute_names(NodeId id) {
  const std::optional<NodeView> seen = view(id);
  return seen ? extended_attribute_names(*seen) : std::vector<std::string>();
}

Result<std::string> CatalogFileSystem::attribute_value(NodeId id, std::string_view name) {
  const std::optional<NodeView> seen = view(id);
  if (!seen) return forgotten(id);
  return extended_attribute_value(*seen, name);
}

std::unique_ptr<FileSystem> FileSystem::create(std::string root, Catalog& catalog, Fetcher& fetcher,
                                               PageStore* store, FileSystemOptions options) {
  return std::make_unique<CatalogFileSystem>(std::move(root), catalog, fetcher, store,
                                             std::move(options));
}

}  // namespace leat
