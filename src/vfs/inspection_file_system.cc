// SPDX-License-Identifier: Apache-2.0
#include "vfs/inspection_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "vfs/listed_directory.h"
#include "vfs/virtual_files.h"

namespace leat {
namespace {

// Numbers of a NodeTable count from 1 and do not reach it.
constexpr NodeId kDirectory = NodeId{1} << 62;
// The largest file mostly has some 500 KiB; programs hold one of each, if any.
constexpr uint64_t kBytesHeldMax = 64 * kMiB;

bool is_own(NodeId node) {
  return node >= kDirectory;
}

bool is_virtual_directory(NodeId parent, std::string_view name) {
  return parent == kRootNode && name == kInspectionName;
}

Error stale_node(NodeId node) {
  return error(StatusCode::kVersionChanged,
               fmt::format("node {} of {} is of an earlier daemon; open the file again", node,
                           kInspectionName));
}

Status rejected_change(std::string_view operation) {
  return {StatusCode::kReadOnly,
          fmt::format("cannot {} {}: its files describe the mount and are not part of "
                      "the data",
                      operation, kInspectionName)};
}

class InspectionFileSystem : public FileSystem {
 public:
  InspectionFileSystem(std::unique_ptr<FileSystem> inner, std::vector<VirtualFile> files,
                       InspectionOptions options)
      : inner_(std::move(inner)), files_(std::move(files)), options_(std::move(options)) {}

  std::vector<ReopenedFile> take_over() override { return inner_->take_over(); }

  std::optional<Result<NodeAttributes>> try_lookup(NodeId parent, std::string_view name) override;
  Task<Result<NodeAttributes>> lookup(Context context, NodeId parent, std::string name) override;
  NodeAttributes lookup_from_listing(NodeId parent, const CatalogEntry& entry) override;
  void forget(NodeId node, uint64_t count) override {
    is_own(node) ? virtual_files_.forget(node, count) : inner_->forget(node, count);
  }
  Clock::duration negative_ttl(NodeId parent, std::string_view name) override {
    return is_own(parent) ? Clock::duration::zero() : inner_->negative_ttl(parent, name);
  }

  std::optional<Result<NodeAttributes>> try_attributes(NodeId node) override;
  Task<Result<NodeAttributes>> attributes(Context context, NodeId node) override;

  Task<Result<std::shared_ptr<OpenDirectory>>> open_directory(Context context,
                                                              NodeId node) override;

  std::optional<Result<std::shared_ptr<OpenFile>>> try_open(NodeId node, int flags) override;
  Task<Result<std::shared_ptr<OpenFile>>> open(Context context, NodeId node, int flags) override;
  std::shared_ptr<OpenFile> open_cached_version(NodeId node) override {
    return is_own(node) ? virtual_files_.open(node) : inner_->open_cached_version(node);
  }

  FileRefPtr version_of(NodeId node) const override {
    return is_own(node) ? nullptr : inner_->version_of(node);
  }
  NamespaceChanges* changes(NodeId node) override {
    return is_own(node) ? nullptr : inner_->changes(node);
  }

  std::vector<std::string> attribute_names(NodeId node) override {
    return is_own(node) ? std::vector<std::string>() : inner_->attribute_names(node);
  }
  Result<std::string> attribute_value(NodeId node, std::string_view name) override;

  Status reject_change(NodeId node, std::string_view operation, std::string_view name) override {
    return is_own(node) ? rejected_change(operation) : inner_->reject_change(node, operation, name);
  }
  void record_error(NodeId node, std::string_view name, const Status& status,
                    const Caller& caller) override {
    if (!is_own(node)) inner_->record_error(node, name, status, caller);
  }
  void record_caller(NodeId node, const Caller& caller) override {
    if (!is_own(node)) inner_->record_caller(node, caller);
  }
  std::vector<PathError> errors() const override { return inner_->errors(); }

  std::string path_of(NodeId node, std::string_view name) const override {
    return inner_->path_of(node, name);
  }
  uint64_t nodes() const override { return inner_->nodes(); }

  void catalog_changed(const CatalogChange& change) override { inner_->catalog_changed(change); }
  void revalidate_held(const std::string& path) override { inner_->revalidate_held(path); }
  void bytes_dropped(const FileIdSet& files) override { inner_->bytes_dropped(files); }
  void retire(NodeId node) override { inner_->retire(node); }
  void set_invalidation_listener(std::function<void(const KernelInvalidation&)> listener) override {
    inner_->set_invalidation_listener(std::move(listener));
  }

 private:
  // An unknown state counts as "the file system has no such name".
  bool is_answer(const Result<NodeAttributes>& found);
  bool absence_cached() const;
  std::optional<Result<NodeAttributes>> try_directory();
  Task<Result<NodeAttributes>> directory(Context context);
  NodeAttributes describe(NodeId node, FileKind kind) const;
  Task<> fetch_owner(Context context);
  void set_owner(const NodeAttributes& root);
  std::optional<Result<std::shared_ptr<OpenFile>>> open_own(NodeId node, int flags) const;

  const std::unique_ptr<FileSystem> inner_;
  const std::vector<VirtualFile> files_;
  const InspectionOptions options_;
  VirtualFiles virtual_files_{kDirectory, kBytesHeldMax};
  // The file system has the name itself, by its last answer.
  std::atomic<bool> has_own_ = false;
  std::atomic<Clock::rep> absent_until_ = Clock::time_point::min().time_since_epoch().count();
  mutable std::mutex mutex_;  // leaf
  NodeAttributes root_{.mode = S_IFDIR | 0755};
};

// ---- names

// Returns true if `found`, for the name in the root, is the answer; otherwise the virtual directory
// is.
bool InspectionFileSystem::is_answer(const Result<NodeAttributes>& found) {
  if (found || found.error().code() == StatusCode::kNotFound) {
    has_own_ = found.has_value();
    return found.has_value();
  }
  return has_own_ || found.error().code() == StatusCode::kCancelled;
}

bool InspectionFileSystem::absence_cached() const {
  return !has_own_ && options_.now().time_since_epoch().count() < absent_until_;
}

std::optional<Result<NodeAttributes>> InspectionFileSystem::try_lookup(NodeId parent,
                                                                       std::string_view name) {
  if (is_virtual_directory(parent, name)) {
    std::optional<Result<NodeAttributes>> found = inner_->try_lookup(parent, name);
    if (found && is_answer(*found)) return found;
    if (found || absence_cached()) return try_directory();
    return std::nullopt;
  }
  if (!is_own(parent)) return inner_->try_lookup(parent, name);
  // lookup() creates the file.
  if (std::ranges::find(files_, name, &VirtualFile::name) != files_.end()) return std::nullopt;
  return error(StatusCode::kNotFound, fmt::format("there is no {}/{}", kInspectionName, name));
}

Task<Result<NodeAttributes>> InspectionFileSystem::lookup(Context context, NodeId parent,
                                                          std::string name) {
  if (is_virtual_directory(parent, name)) {
    if (!absence_cached()) {
      const Context bounded = context.with_timeout(options_.lookup_timeout);
      Result<NodeAttributes> found = co_await inner_->lookup(bounded, parent, name);
      if (is_answer(found)) co_return found;
      if (found.error().code() != StatusCode::kNotFound) {
        absent_until_ = (options_.now() + options_.absence_ttl).time_since_epoch().count();
      }
    }
    co_return co_await directory(context);
  }
  if (!is_own(parent)) co_return co_await inner_->lookup(context, parent, name);
  const auto file = std::ranges::find(files_, name, &VirtualFile::name);
  if (file == files_.end()) co_return *try_lookup(parent, name);
  co_await fetch_owner(context);
  co_return virtual_files_.add(describe(0, FileKind::kFile), file->content());
}

// Lists names only, since each lookup creates the file.
NodeAttributes InspectionFileSystem::lookup_from_listing(NodeId parent, const CatalogEntry& entry) {
  if (is_own(parent)) return {.kind = entry.info.kind};
  return inner_->lookup_from_listing(parent, entry);
}

// ---- attributes

// Owner and group are those of the root.
NodeAttributes InspectionFileSystem::describe(NodeId node, FileKind kind) const {
  const bool is_directory = kind == FileKind::kDirectory;
  std::lock_guard lock(mutex_);
  const mode_t allowed = root_.mode & 0777;
  return {.node = node,
          .kind = kind,
          .mtime = std::chrono::system_clock::now(),
          .mode = is_directory ? S_IFDIR | allowed : S_IFREG | (allowed & 0666),
          .uid = root_.uid,
          .gid = root_.gid};
}

void InspectionFileSystem::set_owner(const NodeAttributes& root) {
  std::lock_guard lock(mutex_);
  root_ = root;
}

Task<> InspectionFileSystem::fetch_owner(Context context) {
  Result<NodeAttributes> root = co_await inner_->attributes(context, kRootNode);
  if (root) set_owner(*root);
}

std::optional<Result<NodeAttributes>> InspectionFileSystem::try_directory() {
  const std::optional<Result<NodeAttributes>> root = inner_->try_attributes(kRootNode);
  if (!root) return std::nullopt;
  if (*root) set_owner(**root);
  return describe(kDirectory, FileKind::kDirectory);
}

Task<Result<NodeAttributes>> InspectionFileSystem::directory(Context context) {
  co_await fetch_owner(context);
  co_return describe(kDirectory, FileKind::kDirectory);
}

std::optional<Result<NodeAttributes>> InspectionFileSystem::try_attributes(NodeId node) {
  if (!is_own(node)) return inner_->try_attributes(node);
  if (node == kDirectory) return try_directory();
  if (std::optional<NodeAttributes> known = virtual_files_.attributes(node)) return *known;
  return stale_node(node);
}

Task<Result<NodeAttributes>> InspectionFileSystem::attributes(Context context, NodeId node) {
  if (!is_own(node)) co_return co_await inner_->attributes(context, node);
  if (node == kDirectory) co_return co_await directory(context);
  co_return *try_attributes(node);
}

Result<std::string> InspectionFileSystem::attribute_value(NodeId node, std::string_view name) {
  if (!is_own(node)) return inner_->attribute_value(node, name);
  return error(StatusCode::kNotFound, fmt::format("there is no attribute '{}'", name));
}

// ---- opens

Task<Result<std::shared_ptr<OpenDirectory>>> InspectionFileSystem::open_directory(Context context,
                                                                                  NodeId node) {
  if (!is_own(node)) co_return co_await inner_->open_directory(context, node);
  std::vector<CatalogEntry> entries;
  for (const VirtualFile& file : files_) {
    CatalogEntry entry;
    entry.info = {.name = file.name, .kind = FileKind::kFile, .size = 0, .mtime = {}};
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, [](const CatalogEntry& entry) { return entry.info.name; });
  ListingPtr listing = Listing::of(std::move(entries), Clock::time_point::min());
  co_return std::make_shared<ListedDirectory>(node, std::move(listing), Clock::duration::zero());
}

std::optional<Result<std::shared_ptr<OpenFile>>> InspectionFileSystem::open_own(NodeId node,
                                                                                int flags) const {
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_TRUNC | O_CREAT)) != 0) {
    return error(rejected_change("write to"));
  }
  if (node == kDirectory) {
    return error(StatusCode::kIsDirectory, fmt::format("{} is a directory", kInspectionName));
  }
  if (std::shared_ptr<OpenFile> file = virtual_files_.open(node)) return file;
  return stale_node(node);
}

std::optional<Result<std::shared_ptr<OpenFile>>> InspectionFileSystem::try_open(NodeId node,
                                                                                int flags) {
  return is_own(node) ? open_own(node, flags) : inner_->try_open(node, flags);
}

Task<Result<std::shared_ptr<OpenFile>>> InspectionFileSystem::open(Context context, NodeId node,
                                                                   int flags) {
  if (is_own(node)) co_return *open_own(node, flags);
  co_return co_await inner_->open(context, node, flags);
}

}  // namespace

std::unique_ptr<FileSystem> with_inspection(std::unique_ptr<FileSystem> files,
                                            std::vector<VirtualFile> virtual_files,
                                            InspectionOptions options) {
  return std::make_unique<InspectionFileSystem>(std::move(files), std::move(virtual_files),
                                                std::move(options));
}

}  // namespace leat
