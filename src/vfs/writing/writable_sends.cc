// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: a content on its way to the store, whole or in parts.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "source/part_plan.h"
#include "source/part_writer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "vfs/writing/staged/write_outcome.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

Counter copied_bytes("leat_vfs_copied_part_bytes_total",
                     "Bytes of saved files that the store copied from their version before", "",
                     Stability::kExperimental);

// Bytes that are read from a staged file at a time; larger files are sent in parts.
constexpr uint64_t kPieceBytes = PartWriter::kPartBytes;
// A smaller object is sent whole: each copied part is a request.
constexpr uint64_t kCopiedObjectMin = 2 * kPieceBytes;
// The pause after the first attempt to send a file.
constexpr Clock::duration kPause = std::chrono::milliseconds(20);

std::vector<std::byte> contiguous(const Bytes& bytes) {
  std::vector<std::byte> all(bytes.size());
  bytes.copy_to(all);
  return all;
}

}  // namespace

Task<Result<SourceObject>> WritableFileSystem::send(Context context, Place place,
                                                    WriteRequest request,
                                                    std::shared_ptr<StagedFile> content,
                                                    std::shared_ptr<PartStream> stream) {
  UnchangedRanges same = content->begin_save();
  // The name may show another version by now.
  if (same.version != request.condition.version) same = {};
  Result<SourceObject> sent = co_await send_repeatedly(context, place, std::move(request), content,
                                                       std::move(same), std::move(stream));
  if (sent) {
    content->end_save(sent->version, sent->size);
  } else {
    content->end_save(std::nullopt, 0);
  }
  co_return sent;
}

// After a failure with an unknown outcome, the object shows whether the write was done. The same
// holds for a condition that failed, since a layer below may have repeated the request.
Task<Result<SourceObject>> WritableFileSystem::send_repeatedly(Context context, Place place,
                                                               WriteRequest request,
                                                               std::shared_ptr<StagedFile> content,
                                                               UnchangedRanges same,
                                                               std::shared_ptr<PartStream> stream) {
  Result<SourceObject> sent = error(StatusCode::kInternal, "nothing was sent");
  request.condition = compared_condition(std::move(request.condition), place.capabilities());
  const WriteCondition& condition = request.condition;
  for (int attempt = 0; attempt < options_.save_attempts; ++attempt) {
    sent = co_await send_changed(context, place, request, content, same,
                                 std::exchange(stream, nullptr));
    const bool conditional = condition.absent || condition.version.known();
    if (sent || !conditional) co_return sent;
    const StatusCode code = sent.error().code();
    if (!is_unknown_outcome(code) && !is_condition_failure(code)) co_return sent;
    Result<SourceObject> now = co_await place.mount->source->stat(context, {.key = place.key});
    if (!now && now.error().code() != StatusCode::kNotFound) co_return sent;
    const bool unchanged = now ? now->version == condition.version : condition.absent;
    if (now && !unchanged) {
      LEAT_CO_TRY(const bool ours, co_await is_saved(context, place, *now, content));
      if (ours) co_return now;
    }
    if (is_condition_failure(code)) co_return sent;
    if (!unchanged) co_return error(StatusCode::kVersionChanged, sent.error().to_string());
    if (attempt + 1 == options_.save_attempts) break;
    const Result<> slept = co_await sleep_for(context, kPause * (1 << attempt));
    if (!slept) break;
  }
  co_return sent;
}

Task<Result<SourceObject>> WritableFileSystem::send_once(Context context, Place place,
                                                         WriteRequest request,
                                                         std::shared_ptr<StagedFile> content,
                                                         uint64_t size) {
  Source& source = *place.mount->source;
  if (size <= kPieceBytes) {
    LEAT_CO_TRY(const Bytes bytes, co_await content->read(context, 0, size));
    const std::vector<std::byte> all = contiguous(bytes);
    Result<SourceObject> object = co_await source.write(context, std::move(request), all);
    co_return object;
  }
  LEAT_CO_TRY(PartWriter writer, PartWriter::begin(source, std::move(request), size));
  Result<> sent;
  for (uint64_t at = 0; at < size && sent; at += kPieceBytes) {
    Result<Bytes> bytes = co_await content->read(context, at, std::min(kPieceBytes, size - at));
    if (!bytes) {
      sent = Error(bytes.error());
      break;
    }
    for (const Slice& slice : bytes->slices()) {
      if (sent) sent = co_await writer.append(context, slice.span());
    }
  }
  if (sent) {
    Result<SourceObject> object = co_await writer.complete(context);
    if (object) co_return object;
    sent = Error(object.error());
  }
  static_cast<void>(co_await writer.abort(Context::background()));
  co_return Error(sent.error());
}

// A store may refuse such parts for reasons of its own, so any failure but that of the network
// leads to the whole object. Its condition shows whether somebody else wrote.
Task<Result<SourceObject>> WritableFileSystem::send_changed(Context context, Place place,
                                                            WriteRequest request,
                                                            std::shared_ptr<StagedFile> content,
                                                            UnchangedRanges same,
                                                            std::shared_ptr<PartStream> stream) {
  if (stream) {
    LEAT_CO_TRY(const std::optional<SourceObject> object, co_await stream->finish(context));
    if (object) co_return *object;
  }
  const uint64_t size = content->size();
  const SourceCapabilities store = place.capabilities();
  std::vector<PlannedPart> parts;
  // The condition of the whole object also guards against a store that compares no copied part.
  const bool can_copy = store.copies_parts && store.write_if_version;
  if (can_copy && size >= kCopiedObjectMin) parts = plan_parts(store, size, same.ranges);
  if (!parts.empty()) {
    Result<SourceObject> sent =
        co_await send_parts(context, place, request, content, std::move(parts), same.version);
    if (sent || is_unknown_outcome(sent.error().code())) co_return sent;
    log::info("{} is written as a whole, since its store did not copy what is unchanged: {}",
              place.path, sent.error().to_string());
  }
  Result<SourceObject> sent = co_await send_once(context, place, std::move(request), content, size);
  co_return sent;
}

Task<Result<SourceObject>> WritableFileSystem::send_parts(Context context, Place place,
                                                          WriteRequest request,
                                                          std::shared_ptr<StagedFile> content,
                                                          std::vector<PlannedPart> parts,
                                                          Version copied_version) {
  LEAT_CO_TRY(const ObjectWriterPtr writer, place.mount->source->begin_write(request));
  Result<> sent;
  uint64_t copied = 0;
  for (const PlannedPart& part : parts) {
    if (part.copied) {
      PartCopy from{place.key, copied_version, part.range};
      sent = co_await writer->copy_part(context, std::move(from), request.timeouts);
      copied += part.range.size;
    } else {
      sent = co_await append_range(context, *writer, request, content, part.range);
    }
    if (!sent) break;
  }
  if (sent) {
    Result<SourceObject> object = co_await writer->complete(context, request.timeouts);
    if (object) copied_bytes.add(copied);
    if (object) co_return object;
    sent = Error(object.error());
  }
  static_cast<void>(co_await writer->abort(Context::background(), request.timeouts));
  co_return Error(sent.error());
}

// static
Task<Result<>> WritableFileSystem::append_range(Context context, ObjectWriter& writer,
                                                const WriteRequest& request,
                                                std::shared_ptr<StagedFile> content,
                                                ByteRange range) {
  LEAT_CO_TRY(const Bytes bytes, co_await content->read(context, range.offset, range.size));
  if (bytes.size() != range.size) {
    co_return error(StatusCode::kVersionChanged, "the file was cut while it was sent");
  }
  const std::vector<std::byte> all = contiguous(bytes);
  Result<> sent = co_await writer.append(context, all, request.timeouts);
  co_return sent;
}

}  // namespace leat
