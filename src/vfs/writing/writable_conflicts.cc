// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: what the store has after a save that failed: our content, or another one.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "source/part_writer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

Counter conflicts_total("leat_vfs_write_conflicts_total",
                        "Files that somebody else wrote while they were open for writing", "",
                        Stability::kExperimental);

// Bytes that are compared at a time.
constexpr uint64_t kPieceBytes = PartWriter::kPartBytes;
// Names that are tried for the content of a conflict.
constexpr int kConflictNames = 100;

// The object that was there is not any more.
bool is_gone(StatusCode code) {
  return code == StatusCode::kNotFound || code == StatusCode::kVersionChanged;
}

}  // namespace

Task<Result<bool>> WritableFileSystem::is_saved(Context context, Place place, SourceObject object,
                                                std::shared_ptr<StagedFile> content) {
  if (object.size != content->size()) co_return false;
  for (uint64_t at = 0; at < object.size; at += kPieceBytes) {
    const uint64_t size = std::min(kPieceBytes, object.size - at);
    std::vector<std::byte> theirs(size);
    ReadRequest request{.key = place.key,
                        .range = {at, size},
                        .if_version = object.version,
                        .object_size = object.size};
    Result<> read = co_await place.mount->source->read(context, std::move(request), theirs);
    if (!read && is_gone(read.error().code())) co_return false;
    if (!read) co_return Error(read.error());
    LEAT_CO_TRY(const Bytes ours, co_await content->read(context, at, size));
    std::vector<std::byte> all(ours.size());
    ours.copy_to(all);
    if (all != theirs) co_return false;
  }
  co_return true;
}

Task<> WritableFileSystem::note_attempt(WrittenNodePtr node, std::shared_ptr<StagedFile> content,
                                        uint64_t changes) {
  ContentDigest digest{.size = content->size()};
  for (uint64_t at = 0; at < digest.size; at += kPieceBytes) {
    Result<Bytes> bytes =
        co_await content->read(Context::background(), at, std::min(kPieceBytes, digest.size - at));
    if (!bytes) co_return;
    for (const Slice& slice : bytes->slices()) digest.crc = crc32c(slice.span(), digest.crc);
  }
  if (content->changes() != changes) co_return;
  std::lock_guard lock(nodes_.mutex());
  node->attempted = digest;
}

Task<Result<std::optional<SourceObject>>> WritableFileSystem::find_attempt(
    Context context, Place place, ContentDigest attempted) {
  Source& source = *place.mount->source;
  const Result<SourceObject> object = co_await source.stat(context, {.key = place.key});
  if (!object && !is_gone(object.error().code())) co_return Error(object.error());
  if (!object || object->size != attempted.size) co_return std::nullopt;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < object->size; at += kPieceBytes) {
    std::vector<std::byte> bytes(std::min(kPieceBytes, object->size - at));
    ReadRequest request{.key = place.key,
                        .range = {at, bytes.size()},
                        .if_version = object->version,
                        .object_size = object->size};
    const Result<> read = co_await source.read(context, std::move(request), bytes);
    if (!read && !is_gone(read.error().code())) co_return Error(read.error());
    if (!read) co_return std::nullopt;
    crc = crc32c(bytes, crc);
  }
  if (crc != attempted.crc) co_return std::nullopt;
  co_return *object;
}

// Both contents are kept: the other one under the name, ours beside it.
Task<Result<>> WritableFileSystem::keep_conflict(Context context, WrittenNodePtr node, Place place,
                                                 std::shared_ptr<StagedFile> content, Status why) {
  conflicts_total.add();
  const auto now = std::chrono::floor<std::chrono::seconds>(options_.wall_clock());
  const std::string suffix = fmt::format(".conflict-{:%Y%m%dT%H%M%SZ}", now);
  const bool can_compare = place.capabilities().write_if_absent;
  const uint64_t changes = content->changes();
  Place beside;
  Result<SourceObject> kept = error(StatusCode::kExists, "all names are taken");
  for (int number = 1; number <= kConflictNames; ++number) {
    beside = place;
    const std::string end = number == 1 ? suffix : fmt::format("{}-{}", suffix, number);
    beside.key += end;
    beside.path += end;
    WriteRequest request{.key = beside.key, .condition = {.absent = can_compare}};
    kept = co_await send_once(context, beside, std::move(request), content, content->size());
    if (kept || kept.error().code() != StatusCode::kExists) break;
  }
  Status status(StatusCode::kConflict,
                kept ? fmt::format("somebody else wrote {} while it was open for writing; what was "
                                   "written here is in {}",
                                   place.path, beside.path)
                     : fmt::format("somebody else wrote {} while it was open for writing, and what "
                                   "was written here could not be kept beside it: {}",
                                   place.path, kept.error().to_string()),
                std::move(why));
  log::warning("{}", status.to_string());
  if (kept) {
    std::lock_guard lock(nodes_.mutex());
    // The name shows the other content from now on; open files keep ours.
    node->saved_changes = changes;
    if (node->staged && node->staged != content) node->saved_changes = node->staged->kept_changes();
    node->unsaved = false;
    node->conflicted = true;
    ++node->parent->changes;
    nodes_.unlink(*node);
  }
  co_await refresh(context, place.path);
  co_await refresh(context, beside.path);
  co_return Error(std::move(status));
}

}  // namespace leat
