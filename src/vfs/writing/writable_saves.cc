// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: content: from the store to a staged file, and back.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "source/part_writer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "vfs/writing/staged/write_outcome.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

Counter saved_total("leat_vfs_saved_files_total", "Written files that were saved to their store",
                    "", Stability::kExperimental);
Counter saved_bytes("leat_vfs_saved_bytes_total",
                    "Bytes of written files that were saved to their store", "",
                    Stability::kExperimental);

// Bytes that are read from a staged file at a time.
constexpr uint64_t kPieceBytes = PartWriter::kPartBytes;
}  // namespace

std::shared_ptr<StagedFile> WritableFileSystem::staged_of(const WrittenNode& node) const {
  std::lock_guard lock(nodes_.mutex());
  return node.staged;
}

void WritableFileSystem::note_written(WrittenNode& node) {
  const WallTime now = options_.wall_clock();
  std::lock_guard lock(nodes_.mutex());
  if (node.stream && node.stream->is_intact()) {
    node.stream->note_write(now);
  } else {
    node.mtime = node.ctime = now;
  }
}

std::shared_ptr<BackingFile> WritableFileSystem::write_directly(const WrittenNodePtr& node) const {
  const std::shared_ptr<StagedFile> staged = staged_of(*node);
  if (!options_.direct_writes || !staged) return nullptr;
  const Result<Place> place = place_of_node(node);
  if (!place || mode_of(*place) == WriteMode::kThrough) return nullptr;
  return StagedFile::write_directly(staged);
}

void WritableFileSystem::note_direct_writes(WrittenNode& node) {
  const std::shared_ptr<StagedFile> staged = staged_of(node);
  const std::optional<WallTime> written = staged ? staged->note_direct_writes() : std::nullopt;
  if (!written) return;
  std::lock_guard lock(nodes_.mutex());
  node.mtime = node.ctime = written;
}

// ---- to a staged file

Task<Result<>> WritableFileSystem::stage(Context context, WrittenNodePtr node, bool empty) {
  const std::shared_ptr<StagedFile> present = staged_of(*node);
  if (!empty && present && !present->is_sealed()) co_return Result<>();
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  Result<> staged = co_await stage_locked(context, node, empty);
  co_return staged;
}

Task<Result<>> WritableFileSystem::stage_locked(Context context, WrittenNodePtr node, bool empty) {
  if (const std::shared_ptr<StagedFile> staged = staged_of(*node)) {
    bool sealed = staged->is_sealed();
    if (!sealed && !empty) co_return Result<>();
    if (!sealed) {
      LEAT_CO_TRY(const bool truncated, co_await staged->truncate(context, 0));
      sealed = !truncated;
    }
    if (sealed) LEAT_CO_CHECK_OK(co_await stage_again(node, staged, empty));
    if (empty) note_written(*node);
    co_return Result<>();
  }
  bool staged = false;
  while (!staged) {
    LEAT_CO_TRY(staged, co_await stage_version(context, node, empty));
  }
  co_return Result<>();
}

Task<Result<bool>> WritableFileSystem::stage_version(Context context, WrittenNodePtr node,
                                                     bool empty) {
  std::shared_ptr<OpenFile> version = file_of(node)->below();
  bool linked, superseded;
  WrittenNodePtr parent;
  std::string name;
  uint64_t epoch;
  {
    std::lock_guard lock(nodes_.mutex());
    epoch = nodes_.epoch();
    linked = node->linked;
    superseded = node->superseded;
    parent = node->parent;
    name = node->name;
  }
  if (superseded) co_return error(StatusCode::kVersionChanged, "another version has the name now");
  if (linked) LEAT_CO_CHECK_OK(place_of(parent, name));
  // Opened again, so that the content is that of now. Only an open file shows a removed one.
  if (linked || !version) {
    LEAT_CO_TRY(version, co_await open_below(context, node));
  }
  const uint64_t size = empty ? 0 : version->ref()->size;
  const Version began = version->ref()->version;
  if (empty) version = nullptr;
  auto make = [&] {
    return StagedFile::create(options_.staging_directory, executor_, version, size);
  };
  LEAT_CO_TRY(std::shared_ptr<StagedFile> staged, co_await executor_.blocking(make));
  if (empty) note_written(*node);
  std::lock_guard lock(nodes_.mutex());
  if (linked && nodes_.epoch() != epoch) co_return false;
  if (!empty) staged->set_version(began);
  node->version = began;
  node->saved_changes = staged->changes();
  node->unsaved = empty;
  node->staged = std::move(staged);
  co_return true;
}

// A sealed content stays as it is for its upload; the node goes on with a copy.
Task<Result<>> WritableFileSystem::stage_again(WrittenNodePtr node,
                                               std::shared_ptr<StagedFile> content, bool empty) {
  std::shared_ptr<OpenFile> base;
  if (!empty) base = std::make_shared<SealedFile>(content);
  auto make = [&] {
    return StagedFile::create(options_.staging_directory, executor_, base,
                              empty ? 0 : content->size());
  };
  LEAT_CO_TRY(std::shared_ptr<StagedFile> copy, co_await executor_.blocking(make));
  std::lock_guard lock(nodes_.mutex());
  node->unsaved = node->is_dirty() || empty;
  node->saved_changes = copy->changes();
  node->staged = std::move(copy);
  co_return Result<>();
}

Task<> WritableFileSystem::keep_content(Context context, WrittenNodePtr node) {
  {
    std::lock_guard lock(nodes_.mutex());
    if (node->opens == 0) co_return;
    ++node->opens;
  }
  Result<> kept;
  const std::shared_ptr<StagedFile> sealed = staged_of(*node);
  if (sealed && sealed->is_sealed()) {
    kept = co_await sealed->keep_open();
  } else {
    kept = co_await stage_locked(context, node, /*empty=*/false);
    if (kept) kept = co_await staged_of(*node)->fill(context);
  }
  if (!kept) {
    log::warning("programs that have {} open cannot read all of it any more: {}", full_path(*node),
                 kept.error().to_string());
  }
  std::lock_guard lock(nodes_.mutex());
  --node->opens;  // the caller drops what nothing needs
}

// ---- to the store

Task<Result<>> WritableFileSystem::save(Context context, WrittenNodePtr node, bool ordered) {
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  Result<> saved = co_await save_locked(context, node, ordered);
  co_return saved;
}

Task<Result<>> WritableFileSystem::save_locked(Context context, WrittenNodePtr node, bool ordered) {
  std::shared_ptr<StagedFile> content;
  WrittenNodePtr parent;
  std::string name;
  uint64_t changes = 0, links = 1;
  WriteRequest request;
  WriteCondition& wanted = request.condition;
  std::optional<ContentDigest> attempted;
  std::shared_ptr<PartStream> stream;
  note_direct_writes(*node);
  {
    std::lock_guard lock(nodes_.mutex());
    if (!node->is_dirty()) co_return Result<>();
    if (node->conflicted) {
      co_return error(StatusCode::kConflict,
                      "somebody else wrote this file while it was open; open it again to write");
    }
    if (!node->linked) co_return Result<>();
    content = node->staged;
    stream = std::exchange(node->stream, nullptr);
    content->end_order();
    changes = content->changes();
    parent = node->parent;
    name = node->name;
    wanted = condition_of(*node);
    request.attributes = attributes_of(*node);
    attempted = node->attempted;
    links = node->links.value_or(1);
  }
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  // Only the store knows all names of a file with several.
  if (mode_of(place) != WriteMode::kThrough && links <= 1) {
    Result<> queued = co_await queue_save(context, node, ordered);
    co_return queued;
  }
  if (is_behind(place)) LEAT_CO_CHECK_OK(co_await drain(context, below_root(place.path)));
  request.key = place.key;
  stream = take_stream(*node, std::move(stream), content, request);
  LEAT_CO_CHECK_OK(co_await content->fill(context));
  if (content->is_direct()) LEAT_CO_CHECK_OK(co_await content->synchronise());
  Result<SourceObject> object = co_await send(context, place, request, content, std::move(stream));
  if (!object && is_condition_failure(object.error().code()) && attempted) {
    LEAT_CO_TRY(const std::optional<SourceObject> ours,
                co_await find_attempt(context, place, *attempted));
    if (ours) {
      wanted = {.version = ours->version};
      object = co_await send(context, place, request, content);
    }
  }
  if (!object && is_unknown_outcome(object.error().code())) {
    co_await note_attempt(node, content, changes);
  }
  if (!object && is_condition_failure(object.error().code())) {
    Result<> kept = co_await keep_conflict(context, node, place, content, object.error());
    co_return kept;
  }
  if (!object) {
    co_return error(object.error().with_context(fmt::format("cannot save {}", place.path)));
  }
  saved_total.add();
  saved_bytes.add(object->size);
  {
    std::lock_guard lock(nodes_.mutex());
    node->version = object->version;
    node->in_store = true;
    // The kernel has cached the time of the change, and not that of the save.
    const std::optional<WallTime> ctime = node->ctime;
    note_object(*node, *object);
    node->ctime = ctime;
    node->attempted = std::nullopt;
    ++node->parent->changes;
    node->saved_changes = changes;
    node->unsaved = false;
  }
  co_await publish(context, node, place, *object);
  const FileRefPtr ref = version_of(node->id);
  if (ref && ref->version == object->version) {
    co_await make_warm(context, node, place, ref, content, changes);
  }
  co_return Result<>();
}

WriteCondition WritableFileSystem::condition_of(const WrittenNode& node) {
  // After a lost answer the version is unknown, though there is one.
  return {.absent = !node.version.known() && !node.in_store, .version = node.version};
}

Task<> WritableFileSystem::publish(Context context, WrittenNodePtr node, Place place,
                                   SourceObject object) {
  co_await learn_change(context, place, std::move(object));
  {
    std::lock_guard lock(nodes_.mutex());
    if (!node->linked) co_return;
    nodes_.outdate_below(*node);
  }
  co_await refresh_names(context, node);
  static_cast<void>(co_await find_below(context, node));
}

// The program does not wait for a copy of a large file: until it is there, the node reads the
// staged file. With freshness=validate the store is asked by each open, so nothing may stand in for
// it.
Task<> WritableFileSystem::make_warm(Context context, WrittenNodePtr node, Place place,
                                     FileRefPtr ref, std::shared_ptr<StagedFile> content,
                                     uint64_t changes) {
  const MountEntry& mount = place.mount->entry;
  const Freshness& freshness = place.mount->freshness_of(path_below(place.path, mount.path));
  std::optional<Gate::Holder> holder;
  const bool validates = freshness.mode == Freshness::Mode::kValidate;
  if (ref->size > kPieceBytes && !validates) holder = fills_.enter();
  if (!holder) {
    co_await fill_cache(context, ref, content, changes);
    co_return;
  }
  {
    std::lock_guard lock(nodes_.mutex());
    ++node->fills;
  }
  executor_.spawn(fill_later(*std::move(holder), node, ref, content, changes));
}

Task<> WritableFileSystem::fill_later(Gate::Holder, WrittenNodePtr node, FileRefPtr ref,
                                      std::shared_ptr<StagedFile> content, uint64_t changes) {
  const Context context = Context::background().with_cancel(fills_stop_.get_token());
  co_await fill_cache(context, ref, content, changes);
  {
    std::lock_guard lock(nodes_.mutex());
    --node->fills;
  }
  drop_saved(node);
}

// A written file is warm. Stops where the file is changed again: a version's pages never are.
Task<> WritableFileSystem::fill_cache(Context context, FileRefPtr ref,
                                      std::shared_ptr<StagedFile> content, uint64_t changes) {
  if (store_ == nullptr || ref->cache != CacheUse::kDisk) co_return;
  for (uint64_t at = 0; at < ref->size; at += kPieceBytes) {
    Result<Bytes> bytes =
        co_await content->read(context, at, std::min(kPieceBytes, ref->size - at));
    if (!bytes || content->changes() != changes || context.cancelled()) co_return;
    Result<> written = co_await store_->write(context, ref, at, *std::move(bytes));
    if (!written) co_return;
  }
}

// ---- the end of an open

bool WritableFileSystem::try_close(const WrittenNodePtr& node) {
  {
    std::lock_guard lock(nodes_.mutex());
    if (node->opens == 1 && node->staged) return false;
    if (node->opens > 0) --node->opens;
    if (node->opens > 0) return true;
  }
  nodes_.drop_if_unused(node->id);
  return true;
}

Task<Result<>> WritableFileSystem::close(Context context, WrittenNodePtr node) {
  if (try_close(node)) co_return Result<>();
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  Result<> saved = co_await save_locked(context, node);
  if (!saved) record_error(node->id, {}, saved.error(), {});
  {
    std::lock_guard lock(nodes_.mutex());
    if (node->opens > 0) --node->opens;
  }
  drop_saved(node);
  co_return saved;
}

// Without a program that has the file open, its content is that of the store again, or of the
// journal. What waits there is closed: descriptors would run out.
void WritableFileSystem::drop_saved(const WrittenNodePtr& node) {
  std::shared_ptr<StagedFile> dropped;
  {
    std::lock_guard lock(nodes_.mutex());
    const bool dirty = node->linked && node->is_dirty();
    const bool waits = node->linked && node->queued != 0;
    const bool is_needed = node->opens > 0 || node->fills > 0 || dirty || waits;
    if (!is_needed) {
      end_stream(*node);
      dropped = std::move(node->staged);
    }
    // From here on its directory shows what the store has.
    if (dropped && node->parent) ++node->parent->changes;
    if (node->opens == 0 && !dirty && waits && node->staged) {
      // A copy that nobody changed has a descriptor of its own.
      const QueuedChangePtr change = uploads_->find(node->queued);
      if (change && change->staged != node->staged) {
        dropped = std::exchange(node->staged, change->staged);
        node->saved_changes = node->staged->changes();
      }
      node->staged->park();
    }
  }
  nodes_.drop_if_unused(node->id);
}

Task<Result<>> WritableFileSystem::save_all(Context context) {
  std::vector<WrittenNodePtr> dirty;
  {
    std::lock_guard lock(nodes_.mutex());
    dirty = nodes_.dirty();
  }
  Result<> all;
  for (const WrittenNodePtr& node : dirty) {
    Result<> saved = co_await save(context, node);
    if (saved) {
      drop_saved(node);
    } else if (all) {
      all = std::move(saved);
    }
  }
  co_return all;
}

}  // namespace leat
