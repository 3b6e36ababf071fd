// SPDX-License-Identifier: Apache-2.0
#include "vfs/inspected_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "vfs/content_nodes.h"
#include "vfs/listed_directory.h"

namespace leat {
namespace {

// Numbers of a NodeTable count from 1 and do not reach it.
constexpr NodeId kDirectory = NodeId{1} << 62;
// The largest file mostly has some 500 KiB; programs hold one of each, if any.
constexpr uint64_t kBytesHeldMax = 64 * kMiB;

bool is_own(NodeId node) {
  return node >= kDirectory;
}

bool names_it(NodeId parent, std::string_view name) {
  return parent == kRootNode && name == kInspectionName;
}

Error gone(NodeId node) {
  return error(StatusCode::kChanged,
               fmt::format("node {} of {} is of an earlier daemon; open the file again", node,
                           kInspectionName));
}

Status refused(std::string_view operation) {
  return {StatusCode::kReadOnly,
          fmt::format("cannot {} {}: what is in it is told by the mount itself; it is not part of "
                      "the data",
                      operation, kInspectionName)};
}

class InspectedFileSystem : public FileSystem {
 public:
  InspectedFileSystem(std::unique_ptr<FileSystem> inner, std::vector<InspectionFile> files,
                      InspectionOptions options)
      : inner_(std::move(inner)), files_(std::move(files)), options_(std::move(options)) {}

  std::vector<ReopenedFile> take_over() override { return inner_->take_over(); }

  std::optional<Result<NodeAttributes>> try_lookup(NodeId parent, std::string_view name) override;
  Task<Result<NodeAttributes>> lookup(Context context, NodeId parent, std::string name) override;
  NodeAttributes adopt(NodeId parent, const CatalogEntry& entry) override;
  void forget(NodeId node, uint64_t count) override {
    is_own(node) ? made_.forget(node, count) : inner_->forget(node, count);
  }
  Clock::duration missing_age(NodeId parent, std::string_view name) override {
    return is_own(parent) ? Clock::duration::zero() : inner_->missing_age(parent, name);
  }

  std::optional<Result<NodeAttributes>> try_attributes(NodeId node) override;
  Task<Result<NodeAttributes>> attributes(Context context, NodeId node) override;

  Task<Result<std::shared_ptr<OpenDirectory>>> open_directory(Context context,
                                                              NodeId node) override;

  std::optional<Result<std::shared_ptr<OpenFile>>> try_open(NodeId node, int flags) override;
  Task<Result<std::shared_ptr<OpenFile>>> open(Context context, NodeId node, int flags) override;
  std::shared_ptr<OpenFile> believed_file(NodeId node) override {
    return is_own(node) ? made_.open(node) : inner_->believed_file(node);
  }

  std::vector<std::string> attribute_names(NodeId node) override {
    return is_own(node) ? std::vector<std::string>() : inner_->attribute_names(node);
  }
  Result<std::string> attribute_value(NodeId node, std::string_view name) override;

  Status refuse_change(NodeId node, std::string_view operation, std::string_view name) override {
    return is_own(node) ? refused(operation) : inner_->refuse_change(node, operation, name);
  }
  void note_error(NodeId node, std::string_view name, const Status& status,
                  const Caller& caller) override {
    if (!is_own(node)) inner_->note_error(node, name, status, caller);
  }
  void note_caller(NodeId node, const Caller& caller) override {
    if (!is_own(node)) inner_->note_caller(node, caller);
  }
  std::vector<PathError> errors() const override { return inner_->errors(); }

  std::string path_of(NodeId node, std::string_view name) const override {
    return inner_->path_of(node, name);
  }
  uint64_t nodes() const override { return inner_->nodes(); }

  void catalog_changed(const CatalogChange& change) override { inner_->catalog_changed(change); }
  void compare_held(const std::string& path) override { inner_->compare_held(path); }
  void bytes_dropped(const FileIdSet& files) override { inner_->bytes_dropped(files); }
  void retire(NodeId node) override { inner_->retire(node); }
  void set_invalidation_listener(std::function<void(const Invalidation&)> listener) override {
    inner_->set_invalidation_listener(std::move(listener));
  }

 private:
  // An unknown state counts as "the file system has no such name".
  bool settles(const Result<NodeAttributes>& found);
  bool trusted() const;
  std::optional<Result<NodeAttributes>> directory_in_place();
  Task<Result<NodeAttributes>> directory(Context context);
  NodeAttributes describe(NodeId node, FileKind kind) const;
  Task<> ask_owner(Context context);
  void note_owner(const NodeAttributes& root);
  std::optional<Result<std::shared_ptr<OpenFile>>> open_own(NodeId node, int flags) const;

  const std::unique_ptr<FileSystem> inner_;
  const std::vector<InspectionFile> files_;
  const InspectionOptions options_;
  ContentNodes made_{kDirectory, kBytesHeldMax};
  // The file system has the name itself, by its last answer.
  std::atomic<bool> has_own_ = false;
  std::atomic<Clock::rep> trusted_until_ = Clock::time_point::min().time_since_epoch().count();
  mutable std::mutex mutex_;  // leaf
  NodeAttributes root_{.mode = S_IFDIR | 0755};
};

// ---- names

// Returns true if `found`, for the name in the root, is the answer; otherwise the virtual directory
// is.
bool InspectedFileSystem::settles(const Result<NodeAttributes>& found) {
  if (found || found.error().code() == StatusCode::kNotFound) {
    has_own_ = found.has_value();
    return found.has_value();
  }
  return has_own_ || found.error().code() == StatusCode::kCancelled;
}

bool InspectedFileSystem::trusted() const {
  return !has_own_ && options_.now().time_since_epoch().count() < trusted_until_;
}

std::optional<Result<NodeAttributes>> InspectedFileSystem::try_lookup(NodeId parent,
                                                                      std::string_view name) {
  if (names_it(parent, name)) {
    std::optional<Result<NodeAttributes>> found = inner_->try_lookup(parent, name);
    if (found && settles(*found)) return found;
    if (found || trusted()) return directory_in_place();
    return std::nullopt;
  }
  if (!is_own(parent)) return inner_->try_lookup(parent, name);
  // lookup() creates the file.
  if (std::ranges::find(files_, name, &InspectionFile::name) != files_.end()) return std::nullopt;
  return error(StatusCode::kNotFound, fmt::format("there is no {}/{}", kInspectionName, name));
}

Task<Result<NodeAttributes>> InspectedFileSystem::lookup(Context context, NodeId parent,
                                                         std::string name) {
  if (names_it(parent, name)) {
    if (!trusted()) {
      const Context patient = context.with_timeout(options_.patience);
      Result<NodeAttributes> found = co_await inner_->lookup(patient, parent, name);
      if (settles(found)) co_return found;
      if (found.error().code() != StatusCode::kNotFound) {
        trusted_until_ = (options_.now() + options_.trust).time_since_epoch().count();
      }
    }
    co_return co_await directory(context);
  }
  if (!is_own(parent)) co_return co_await inner_->lookup(context, parent, name);
  const auto file = std::ranges::find(files_, name, &InspectionFile::name);
  if (file == files_.end()) co_return *try_lookup(parent, name);
  co_await ask_owner(context);
  co_return made_.add(describe(0, FileKind::kFile), file->content());
}

// Lists names only, since each lookup creates the file.
NodeAttributes InspectedFileSystem::adopt(NodeId parent, const CatalogEntry& entry) {
  if (is_own(parent)) return {.kind = entry.info.kind};
  return inner_->adopt(parent, entry);
}

// ---- attributes

// Owner and group are those of the root.
NodeAttributes InspectedFileSystem::describe(NodeId node, FileKind kind) const {
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

void InspectedFileSystem::note_owner(const NodeAttributes& root) {
  std::lock_guard lock(mutex_);
  root_ = root;
}

Task<> InspectedFileSystem::ask_owner(Context context) {
  Result<NodeAttributes> root = co_await inner_->attributes(context, kRootNode);
  if (root) note_owner(*root);
}

std::optional<Result<NodeAttributes>> InspectedFileSystem::directory_in_place() {
  const std::optional<Result<NodeAttributes>> root = inner_->try_attributes(kRootNode);
  if (!root) return std::nullopt;
  if (*root) note_owner(**root);
  return describe(kDirectory, FileKind::kDirectory);
}

Task<Result<NodeAttributes>> InspectedFileSystem::directory(Context context) {
  co_await ask_owner(context);
  co_return describe(kDirectory, FileKind::kDirectory);
}

std::optional<Result<NodeAttributes>> InspectedFileSystem::try_attributes(NodeId node) {
  if (!is_own(node)) return inner_->try_attributes(node);
  if (node == kDirectory) return directory_in_place();
  if (std::optional<NodeAttributes> known = made_.attributes(node)) return *known;
  return gone(node);
}

Task<Result<NodeAttributes>> InspectedFileSystem::attributes(Context context, NodeId node) {
  if (!is_own(node)) co_return co_await inner_->attributes(context, node);
  if (node == kDirectory) co_return co_await directory(context);
  co_return *try_attributes(node);
}

Result<std::string> InspectedFileSystem::attribute_value(NodeId node, std::string_view name) {
  if (!is_own(node)) return inner_->attribute_value(node, name);
  return error(StatusCode::kNotFound, fmt::format("there is no attribute '{}'", name));
}

// ---- opens

Task<Result<std::shared_ptr<OpenDirectory>>> InspectedFileSystem::open_directory(Context context,
                                                                                 NodeId node) {
  if (!is_own(node)) co_return co_await inner_->open_directory(context, node);
  std::vector<CatalogEntry> entries;
  for (const InspectionFile& file : files_) {
    CatalogEntry entry;
    entry.info = {.name = file.name, .kind = FileKind::kFile, .size = 0, .mtime = {}};
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, [](const CatalogEntry& entry) { return entry.info.name; });
  ListingPtr listing = Listing::of(std::move(entries), Clock::time_point::min());
  co_return std::make_shared<ListedDirectory>(node, std::move(listing), Clock::duration::zero());
}

std::optional<Result<std::shared_ptr<OpenFile>>> InspectedFileSystem::open_own(NodeId node,
                                                                               int flags) const {
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_TRUNC | O_CREAT)) != 0) {
    return error(refused("write to"));
  }
  if (node == kDirectory) {
    return error(StatusCode::kIsDirectory, fmt::format("{} is a directory", kInspectionName));
  }
  if (std::shared_ptr<OpenFile> file = made_.open(node)) return file;
  return gone(node);
}

std::optional<Result<std::shared_ptr<OpenFile>>> InspectedFileSystem::try_open(NodeId node,
                                                                               int flags) {
  return is_own(node) ? open_own(node, flags) : inner_->try_open(node, flags);
}

Task<Result<std::shared_ptr<OpenFile>>> InspectedFileSystem::open(Context context, NodeId node,
                                                                  int flags) {
  if (is_own(node)) co_return *open_own(node, flags);
  co_return co_await inner_->open(context, node, flags);
}

}  // namespace

std::unique_ptr<FileSystem> inspected(std::unique_ptr<FileSystem> files,
                                      std::vector<InspectionFile> inspection,
                                      InspectionOptions options) {
  return std::make_unique<InspectedFileSystem>(std::move(files), std::move(inspection),
                                               std::move(options));
}

}  // namespace leat
