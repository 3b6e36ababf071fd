// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "source/part_writer.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "worker/staging/staging_sender.h"

namespace leat {
namespace {

Counter conflicts_total("leat_staging_conflicts_total",
                        "Staged writes of names that somebody else had written in the store");

constexpr int kConflictNames = 100;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool is_conflict(StatusCode code) {
  return code == StatusCode::kExists || code == StatusCode::kVersionChanged;
}

Error damaged(const StagedChange& change) {
  return error(StatusCode::kCorrupt,
               fmt::format("the staged content of {} does not have its checksum", change.key));
}

Task<Result<SourceObject>> write_content(Context context, SourcePtr source, WriteRequest request,
                                         StagedChangePtr change, ReadContent read) {
  const uint64_t piece = PartWriter::kPartBytes;
  if (change->size <= piece) {
    std::string content;
    if (change->size > 0) {
      const ByteRange all{0, change->size};
      LEAT_CO_TRY(content, co_await read(context, all));
    }
    if (crc32c(bytes_of(content)) != change->crc) co_return damaged(*change);
    co_return co_await source->write(context, std::move(request), bytes_of(content));
  }
  LEAT_CO_TRY(PartWriter writer, PartWriter::begin(*source, std::move(request), change->size));
  uint32_t crc = 0;
  Result<> written;
  for (uint64_t at = 0; at < change->size && written; at += piece) {
    const ByteRange range{at, std::min(piece, change->size - at)};
    const Result<std::string> bytes = co_await read(context, range);
    if (!bytes) {
      written = Error(bytes.error());
      break;
    }
    crc = crc32c(bytes_of(*bytes), crc);
    written = co_await writer.append(context, bytes_of(*bytes));
  }
  if (written && crc != change->crc) written = damaged(*change);
  if (!written) {
    Result<> aborted = co_await writer.abort(Context::background());
    static_cast<void>(aborted);
    co_return Error(written.error());
  }
  co_return co_await writer.complete(context);
}

// Returns the store's object if it has this content, as after an attempt without an answer.
Task<Result<std::optional<SourceObject>>> find_own(Context context, SourcePtr source,
                                                   StagedChangePtr change) {
  StatRequest request{.key = change->key};
  Result<SourceObject> object = co_await source->stat(context, std::move(request));
  if (!object && object.error().code() == StatusCode::kNotFound) co_return std::nullopt;
  if (!object) co_return Error(object.error());
  if (object->size != change->size) co_return std::nullopt;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < object->size; at += PartWriter::kPartBytes) {
    std::vector<std::byte> bytes(std::min<uint64_t>(PartWriter::kPartBytes, object->size - at));
    ReadRequest read{.key = change->key,
                     .range = {at, bytes.size()},
                     .if_version = object->version,
                     .object_size = object->size};
    const Result<> got = co_await source->read(context, std::move(read), bytes);
    if (!got) co_return Error(got.error());
    crc = crc32c(bytes, crc);
  }
  if (crc != change->crc) co_return std::nullopt;
  co_return *std::move(object);
}

Task<Result<>> keep_beside(Context context, SourcePtr source, StagedChangePtr change,
                           ReadContent read) {
  conflicts_total.add();
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string suffix = fmt::format(".conflict-{:%Y%m%dT%H%M%SZ}", now);
  Result<SourceObject> kept = error(StatusCode::kExists, "all names are taken");
  WriteRequest request;
  for (int number = 1; number <= kConflictNames; ++number) {
    request = {.key = change->key + (number == 1 ? suffix : fmt::format("{}-{}", suffix, number)),
               .attributes = change->attributes};
    request.condition.absent = source->capabilities().write_if_absent;
    kept = co_await write_content(context, source, request, change, read);
    if (kept || !is_conflict(kept.error().code())) break;
  }
  if (!kept) co_return Error(kept.error());
  log::warning("somebody else wrote {} in {} while a staged write of it waited; that is in {}",
               change->key, source->name(), request.key);
  co_return Result<>();
}

}  // namespace

Task<Result<SourceObject>> send_staged_content(Context context, SourcePtr source,
                                               StagedChangePtr change, ReadContent read) {
  WriteRequest request{.key = change->key, .attributes = change->attributes};
  const SourceCapabilities& store = source->capabilities();
  if (store.write_if_absent) request.condition.absent = change->condition.absent;
  if (store.write_if_version) request.condition.version = change->condition.version;
  Result<SourceObject> written =
      co_await write_content(context, source, std::move(request), change, read);
  if (written) {
    // A store that does not answer with a version is asked for it.
    if (written->version.known()) co_return written;
    StatRequest stat{.key = change->key};
    co_return co_await source->stat(context, std::move(stat));
  }
  const StatusCode code = written.error().code();
  if (!is_conflict(code) && code != StatusCode::kNotFound) co_return written;
  LEAT_CO_TRY(std::optional<SourceObject> own, co_await find_own(context, source, change));
  if (own) co_return *std::move(own);
  if (!is_conflict(code)) co_return written;
  LEAT_CO_CHECK_OK(co_await keep_beside(context, source, change, std::move(read)));
  co_return SourceObject();
}

}  // namespace leat
