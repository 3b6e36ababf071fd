// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: changes that are durable on this host first (write=back), or only (local).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ranges>
#include <utility>

#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

// Larger files are sent alone, so that what is written after them is seen after them.
constexpr uint64_t kUnorderedBytes = kMiB;

// Gives a file without a name one.
Result<> link_to(const File& file, const std::string& path) {
  const std::string self = fmt::format("/proc/self/fd/{}", file.fd());
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  const int failed = errno;
  if (failed != ENOENT && failed != EXDEV) {
    return error(status_from_errno(failed, fmt::format("cannot create {}", path)));
  }
  // Unlinked, or made on another file system: copied.
  const File copy(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!copy) return error(status_from_errno(errno, fmt::format("cannot create {}", path)));
  off_t from = 0;
  for (;;) {
    const ssize_t moved = ::copy_file_range(file.fd(), &from, copy.fd(), nullptr, kMiB * 64, 0);
    if (moved == 0 && ::fdatasync(copy.fd()) == 0) return {};
    if (moved > 0) continue;
    const Status status = status_from_errno(errno, fmt::format("cannot write {}", path));
    ::unlink(path.c_str());
    return error(status);
  }
}

// Fewer than `size` bytes only where the file is shorter by now.
Result<std::string> read_all(const File& file, uint64_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(file.fd(), bytes.data(), size, 0);
  if (got < 0) return error(status_from_errno(errno, "cannot read a file that is being written"));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace

WriteMode WritableFileSystem::mode_of(const Place& place) const {
  const MountEntry& mount = place.mount->entry;
  if (options_.journal_directory.empty()) return WriteMode::kThrough;
  const std::string_view below(place.path);
  return mount.policy.of(path_below(below, mount.path)).write;
}

bool WritableFileSystem::is_behind(const Place& place) const {
  if (mode_of(place) != WriteMode::kThrough) return true;
  return has_journal_ && uploads_->has_changes(below_root(place.path));
}

std::string WritableFileSystem::below_root(const std::string& path) const {
  return root_path_ == "/" ? path : path.substr(root_path_.size());
}

Result<> WritableFileSystem::need_journal() {
  if (has_journal_) return {};
  std::lock_guard lock(journal_mutex_);
  if (has_journal_) return {};
  LEAT_TRY(journal_, WriteJournal::open(options_.journal_directory, options_.owner));
  uploads_ = std::make_unique<UploadQueue>(
      executor_, options_.uploads, [this](Context context, QueuedChangePtr change) {
        return send_change(std::move(context), std::move(change));
      });
  has_journal_ = true;
  return {};
}

Task<Result<>> WritableFileSystem::commit(WriteJournal::Edits edits) {
  auto call = [this, &edits] { return journal_->commit(std::move(edits)); };
  Result<> done = co_await executor_.blocking(call);
  co_return done;
}

Task<Result<Semaphore::Permit>> WritableFileSystem::enter_tree(Context context, uint64_t changes) {
  Result<Semaphore::Permit> permit = co_await tree_.acquire(context, changes, "a change of names");
  co_return permit;
}

Task<Result<>> WritableFileSystem::prepare_store(Context context, Place place) {
  if (!is_behind(place)) co_return Result<>();
  if (mode_of(place) == WriteMode::kLocal) {
    co_return error(StatusCode::kUnsupported,
                    fmt::format("cannot do that to {}: only the store can, and write=local keeps "
                                "changes from there",
                                place.path));
  }
  LEAT_CO_CHECK_OK(co_await drain(context, {}));
  co_return Result<>();
}

Task<Result<>> WritableFileSystem::drain(Context context, std::string path) {
  if (!has_journal_) co_return Result<>();
  Result<> done = co_await uploads_->drain(context, std::move(path));
  co_return done;
}

// ---- files

StagedFile::Reopen WritableFileSystem::reopener(const PendingChange& change) const {
  if (!change.is_small) {
    return [path = journal_->content_path(change.content)]() -> Result<File> {
      File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (file) return file;
      return error(status_from_errno(errno, fmt::format("cannot open {}", path)));
    };
  }
  return [this, content = change.content]() -> Result<File> {
    LEAT_TRY(const std::string bytes, journal_->small_content(content));
    LEAT_TRY(File file, StagedFile::create_unlinked(options_.staging_directory));
    if (::pwrite(file.fd(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) {
      return file;
    }
    return error(status_from_errno(errno, "cannot write a copy of a written file"));
  };
}

// `small` gets the content of a small file, which the journal keeps.
std::function<Result<StagedFile::Reopen>(const File&, uint64_t)> WritableFileSystem::keeper(
    std::shared_ptr<QueuedChange> change, std::shared_ptr<std::string> small) const {
  return [this, change, small](const File& file, uint64_t size) -> Result<StagedFile::Reopen> {
    change->size = size;
    change->content = change->number;
    change->is_small = size <= WriteJournal::kSmallBytes;
    if (change->is_small) {
      LEAT_TRY(*small, read_all(file, size));
      change->size = small->size();
      return reopener(*change);
    }
    if (::fdatasync(file.fd()) != 0) {
      return error(status_from_errno(errno, "cannot synchronise a written file"));
    }
    LEAT_CHECK_OK(link_to(file, journal_->content_path(change->content)));
    return reopener(*change);
  };
}

Task<Result<>> WritableFileSystem::queue_save(Context context, WrittenNodePtr node, bool ordered) {
  LEAT_CO_CHECK_OK(co_await executor_.blocking([this] { return need_journal(); }));
  std::shared_ptr<StagedFile> content = staged_of(*node);
  if (content->is_kept()) {
    bool queued;
    {
      std::lock_guard lock(nodes_.mutex());
      queued = content->changes() == node->saved_changes;
    }
    if (queued) {
      LEAT_CO_TRY(queued, co_await requeue_attributes(node));
    }
    if (queued) co_return Result<>();
    // The store has this content and its file here is gone, or it could not be kept.
    if (content->is_sealed()) {
      LEAT_CO_CHECK_OK(co_await stage_again(node, content, /*empty=*/false));
      content = staged_of(*node);
    }
  }
  LEAT_CO_CHECK_OK(co_await content->fill(context));
  const uint64_t size = content->size(), kept = content->kept_size();
  LEAT_CO_CHECK_OK(co_await uploads_->reserve(context, size > kept ? size - kept : 0));
  const Result<Semaphore::Permit> tree = co_await enter_tree(context);
  if (!tree) co_return Error(tree.error());
  LEAT_CO_TRY(const Place place, place_of_node(node));
  auto change = std::make_shared<QueuedChange>();
  auto small = std::make_shared<std::string>();
  change->number = journal_->next_number();
  change->path = below_root(place.path);
  change->mount = mount_of(place);
  change->local = mode_of(place) == WriteMode::kLocal;
  change->node = node;
  change->staged = content;
  change->since = options_.wall_clock();
  LEAT_CO_CHECK_OK(co_await content->seal(context, keeper(change, small)));
  uint64_t previous;
  {
    std::lock_guard lock(nodes_.mutex());
    previous = node->queued;
    change->attributes = attributes_of(*node);
    change->condition = condition_of(*node);
  }
  change->ordered = ordered || change->size > kUnorderedBytes;
  // Nothing was published since, so the earlier content need not be seen.
  const QueuedChangePtr replaced = uploads_->withdraw_newest(previous);
  if (replaced) change->ordered = change->ordered || replaced->ordered;
  WriteJournal::Edits edits{.insert = {{*change, std::move(*small)}}};
  if (replaced) edits.erase = {replaced->number};
  const Result<> durable = co_await commit(std::move(edits));
  if (!durable) {
    if (replaced) uploads_->put_back(replaced->number);
    // The node goes on with it, without a name.
    static_cast<void>(co_await content->keep_open());
    drop_content(*change);
    co_return durable;
  }
  // From here on the end of an earlier save or rename finds it.
  uploads_->add_held(change);
  bool is_stale;
  {
    std::lock_guard lock(nodes_.mutex());
    node->queued = change->number;
    node->saved_changes = content->kept_changes();
    node->unsaved = false;
    const WriteCondition now = condition_of(*node);
    is_stale = now.absent != change->condition.absent || now.version != change->condition.version;
    if (is_stale) change->condition = now;
  }
  // An earlier save ended meanwhile: its version is what a restart has to expect. Without this the
  // next daemon finds a conflict with it, and keeps both.
  if (is_stale) static_cast<void>(co_await commit({.update = {{change->number, *change}}}));
  uploads_->put_back(change->number);
  if (replaced) {
    uploads_->release(replaced->number);
    drop_content(*replaced);
  }
  co_return Result<>();
}

Task<Result<bool>> WritableFileSystem::requeue_attributes(WrittenNodePtr node) {
  uint64_t number;
  {
    std::lock_guard lock(nodes_.mutex());
    number = node->queued;
  }
  if (number == 0) co_return false;
  const UploadQueue::Withdrawn withdrawn = co_await uploads_->withdraw(number);
  if (!withdrawn.change) co_return false;
  // A store that has it already would keep the old ones: sent again as it is, and changed there.
  if (withdrawn.begun) {
    uploads_->put_back(number);
    LEAT_CO_CHECK_OK(co_await uploads_->drain(Context::background(), withdrawn.change->path));
    co_return false;
  }
  {
    std::lock_guard lock(nodes_.mutex());
    withdrawn.change->attributes = attributes_of(*node);
    node->unsaved = false;
  }
  const Result<> durable = co_await commit({.update = {{number, *withdrawn.change}}});
  uploads_->put_back(number);
  if (!durable) co_return Error(durable.error());
  co_return true;
}

Task<Result<std::shared_ptr<StagedFile>>> WritableFileSystem::content_to_send(
    QueuedChangePtr change) const {
  if (change->staged->is_sealed()) co_return change->staged;
  if (change->is_small) co_return StagedFile::sealed(executor_, change->size, reopener(*change));
  auto copy = [&] { return change->staged->copy_to(options_.staging_directory); };
  Result<std::shared_ptr<StagedFile>> content = co_await executor_.blocking(copy);
  co_return content;
}

void WritableFileSystem::drop_content(const QueuedChange& change) const {
  journal_->remove_content(change);
}

// ---- directories

Task<Result<NodeAttributes>> WritableFileSystem::make_directory_behind(Context context,
                                                                       WrittenNodePtr parent,
                                                                       std::string name,
                                                                       NewName as) {
  LEAT_CO_CHECK_OK(co_await executor_.blocking([this] { return need_journal(); }));
  const Result<Semaphore::Permit> tree = co_await enter_tree(context);
  if (!tree) co_return Error(tree.error());
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  const WallTime now = options_.wall_clock();
  auto change = std::make_shared<QueuedChange>();
  change->number = journal_->next_number();
  change->kind = ChangeKind::kMakeDirectory;
  change->path = below_root(place.path);
  change->mount = mount_of(place);
  change->directory = true;
  change->local = mode_of(place) == WriteMode::kLocal;
  change->attributes = {.mode = S_IFDIR | as.mode, .uid = as.uid, .gid = as.gid};
  change->since = now;
  WrittenNodePtr node;
  NodeAttributes made;
  {
    std::lock_guard lock(nodes_.mutex());
    if (!parent->linked) co_return forgotten(parent->id);
    if (nodes_.child(*parent, name)) co_return error(StatusCode::kExists, place.path + " exists");
    node = nodes_.add(parent, name, FileKind::kDirectory);
    node->in_store = false;
    node->attributes_known = true;
    node->queued = change->number;
    node->mode = as.mode;
    node->uid = as.uid;
    node->gid = as.gid;
    node->atime = node->mtime = node->ctime = now;
    node->lookups = 1;
    node->links = 2;
    count_directory(*parent, 1);
    made = describe(*node, {});
  }
  change->node = node;
  const Result<> durable = co_await commit({.insert = {{*change}}});
  if (!durable) {
    {
      std::lock_guard lock(nodes_.mutex());
      node->queued = 0;
      note_removed(*node, *parent, name);
    }
    nodes_.forget(node->id, 1);
    co_return Error(durable.error());
  }
  uploads_->add(change);
  note_changed(*parent);
  co_return made;
}

Task<bool> WritableFileSystem::shows_nothing(Context context, WrittenNodePtr directory) {
  const auto opened = co_await open_directory(context, directory->id);
  if (!opened) co_return false;
  Listing::Cursor names = (*opened)->from(0);
  co_return !names.next();
}

// ---- removed names

QueuedChangePtr WritableFileSystem::removal_of(const WrittenNodePtr& parent, const Place& place,
                                               bool directory) {
  auto removal = std::make_shared<QueuedChange>();
  removal->number = journal_->next_number();
  removal->kind = ChangeKind::kRemove;
  removal->path = below_root(place.path);
  removal->mount = mount_of(place);
  removal->directory = directory;
  removal->local = mode_of(place) == WriteMode::kLocal;
  removal->node = parent;
  removal->since = options_.wall_clock();
  return removal;
}

Task<std::optional<std::vector<UploadQueue::Withdrawn>>> WritableFileSystem::withdraw_all(
    std::vector<QueuedChangePtr> changes) {
  std::vector<UploadQueue::Withdrawn> withdrawn;
  bool all = true;
  for (const QueuedChangePtr& change : changes | std::views::reverse) {
    UploadQueue::Withdrawn one = co_await uploads_->withdraw(change->number);
    all = one.change != nullptr;
    if (!all) break;
    withdrawn.push_back(std::move(one));
  }
  std::ranges::reverse(withdrawn);
  if (all) co_return withdrawn;
  put_back(withdrawn);
  co_return std::nullopt;
}

void WritableFileSystem::put_back(const std::vector<UploadQueue::Withdrawn>& withdrawn) {
  for (const UploadQueue::Withdrawn& one : withdrawn) uploads_->put_back(one.change->number);
}

Task<Result<>> WritableFileSystem::remove_behind(Context context, WrittenNodePtr parent,
                                                 WrittenNodePtr node, std::string name) {
  LEAT_CO_CHECK_OK(co_await executor_.blocking([this] { return need_journal(); }));
  const Result<Semaphore::Permit> tree = co_await enter_tree(context);
  if (!tree) co_return Error(tree.error());
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  // In a directory that is empty by now only removals are pending, and they stay.
  const std::string path = below_root(place.path);
  auto changes = [&] { return uploads_->changes_of(*node, path); };
  auto withdrawn = co_await withdraw_all(changes());
  while (!withdrawn) withdrawn = co_await withdraw_all(changes());
  WriteJournal::Edits edits;
  // Pending saves and removals in a directory make it in the store.
  const uint64_t left = uploads_->changes_below(path).size();
  bool in_store = node->is_directory() && left > withdrawn->size();
  {
    std::lock_guard lock(nodes_.mutex());
    // It may also be pending under an earlier name.
    in_store = in_store || node->in_store || node->replaces || node->version.known() ||
               uploads_->has_renames(path) || WrittenNodes::is_renamed(*node);
  }
  for (const UploadQueue::Withdrawn& one : *withdrawn) {
    in_store = in_store || one.begun || one.change->kind == ChangeKind::kRemove;
    edits.erase.push_back(one.change->number);
    // A program that reads it goes on with the open file.
    if (one.change->staged) static_cast<void>(co_await one.change->staged->keep_open());
  }
  QueuedChangePtr removal;
  if (in_store) {
    removal = removal_of(parent, place, node->is_directory());
    edits.insert.push_back({*removal});
  }
  const Result<> durable = co_await commit(std::move(edits));
  if (!durable) {
    put_back(*withdrawn);
    co_return durable;
  }
  // Saves before a rename stay.
  uint64_t newest = 0;
  for (const QueuedChangePtr& save : uploads_->saves_of({node})) {
    const auto is_taken = [&](const auto& one) { return one.change == save; };
    if (std::ranges::none_of(*withdrawn, is_taken)) newest = save->number;
  }
  {
    std::lock_guard lock(nodes_.mutex());
    node->queued = newest;
    note_removed(*node, *parent, name);
    if (node->is_directory()) node->in_store = true;  // it has nothing of its own any more
    node->ctime = options_.wall_clock();
    ++parent->changes;
    if (removal) parent->removed[name] = removal->number;
  }
  if (removal) uploads_->add(removal);
  for (const UploadQueue::Withdrawn& one : *withdrawn) {
    uploads_->release(one.change->number);
    drop_content(*one.change);
  }
  co_return Result<>();
}

}  // namespace leat
