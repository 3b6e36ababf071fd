// SPDX-License-Identifier: Apache-2.0
// Reads and stats of an OpendalSource: the demanded version, and its comparison.
#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "source/shim/leat_store.h"
#include "source/stores/opendal_source.h"
#include "source/stores/shim_types.h"

namespace leat {

Task<Result<SourceObject>> OpendalSource::stat(Context context, StatRequest request) {
  source_metrics::stat_requests.add();
  Start start = [this, &request](Pending* pending) {
    return leat_store_stat(store_.get(), as_text(request.key), as_terms(request.timeouts), &on_done,
                           pending);
  };
  std::string what = fmt::format("stat {}/{}", name_, request.key);
  Result<ResponsePtr> response = co_await call(context, what, request.timeouts.report, start);
  if (!response) co_return Error(response.error());
  co_return std::move((*response)->objects.at(0));
}

Task<Result<>> OpendalSource::read(Context context, ReadRequest request,
                                   std::span<std::byte> into) {
  std::vector<std::span<std::byte>> pieces{into};
  Result<> done =
      co_await read_scattered(std::move(context), std::move(request), std::move(pieces));
  co_return done;
}

Task<Result<>> OpendalSource::read_scattered(Context context, ReadRequest request,
                                             std::vector<std::span<std::byte>> pieces) {
  size_t size = 0;
  for (std::span<std::byte> piece : pieces) size += piece.size();
  LEAT_CHECK(size == request.range.size);
  if (size == 0) co_return Result<>();
  const bool is_demanded =
      capabilities_.conditional_read && request.if_version.kind == version_kind_;
  const bool is_known = request.if_version.known();
  // A large response takes its time, in which a file on a web server may be written in place. Then
  // another stat follows, and its bytes are final only after it.
  const bool stats_after = !is_demanded && is_known && request.range.size > kSmallRequestBytes;
  if (!is_known || stats_after) request.progress = {};
  if (is_demanded || !is_known || shown_by_response(request.if_version)) {
    Result<ReadResult> read = co_await read_once(context, request, pieces);
    const bool is_filled = read && *read == ReadResult::kFilled;
    // An object of another length may be another version.
    const bool is_decided = is_demanded || !is_known || is_filled ||
                            (!read && read.error().code() != StatusCode::kOutOfRange &&
                             read.error().code() != StatusCode::kUnsupported);
    if (read && !is_filled) shows_versions_.store(false, std::memory_order_relaxed);
    if (is_filled && !stats_after) co_return Result<>();
    if (is_filled) co_return co_await check_version(context, request);
    if (is_decided) co_return Error(read.error());
  }
  Result<> done = co_await read_between_stats(context, std::move(request), std::move(pieces));
  co_return done;
}

bool OpendalSource::shown_by_response(const Version& version) const {
  const std::optional<Version::SizeMtime> wanted = version.size_mtime_only();
  // Responses have whole seconds.
  return wanted && wanted->mtime_ns % 1'000'000'000 == 0 &&
         shows_versions_.load(std::memory_order_relaxed);
}

// Returns kVersionChanged unless the object still has the request's version.
Task<Result<>> OpendalSource::check_version(Context context, ReadRequest request) {
  Result<SourceObject> now = co_await stat(context, {request.key, request.timeouts});
  if (!now) co_return Error(now.error());
  if (now->version == request.if_version) co_return Result<>();
  co_return error(StatusCode::kVersionChanged,
                  fmt::format("{}/{} is {} now, not {} any more", name_, request.key,
                              now->version.to_string(), request.if_version.to_string()));
}

Task<Result<>> OpendalSource::read_between_stats(Context context, ReadRequest request,
                                                 std::vector<std::span<std::byte>> pieces) {
  LEAT_CO_CHECK_OK(co_await check_version(context, request));
  ReadRequest without_version = request;
  without_version.if_version = {};
  without_version.progress = {};  // the version is known only at the end
  Result<ReadResult> read =
      co_await read_once(context, std::move(without_version), std::move(pieces));
  // A size mismatch may come from a change: the second stat detects it.
  if (!read && read.error().code() != StatusCode::kUnsupported) co_return Error(read.error());
  LEAT_CO_CHECK_OK(co_await check_version(context, request));
  if (!read) co_return Error(read.error());
  co_return Result<>();
}

Task<Result<OpendalSource::ReadResult>> OpendalSource::read_once(
    Context context, ReadRequest request, std::vector<std::span<std::byte>> pieces) {
  source_metrics::read_requests.add();
  std::vector<leat_memory> memory;
  for (std::span<std::byte> piece : pieces) memory.push_back({piece.data(), piece.size()});
  leat_expected expected{.version = as_text(request.if_version.value),
                         .size = request.object_size,
                         .mtime_s = 0,
                         .has_mtime = 0};
  if (std::optional<Version::SizeMtime> version = request.if_version.size_mtime_only()) {
    expected = {.version = {},
                .size = version->size,
                .mtime_s = version->mtime_ns / 1'000'000'000,
                .has_mtime = 1};
  }
  Start start = [this, &request, &memory, &expected](Pending* pending) {
    pending->progress = request.progress;
    pending->published.store(true, std::memory_order_release);
    const leat_arrived arrived = request.progress.has_listener() ? &on_bytes : nullptr;
    return leat_store_read(store_.get(), as_text(request.key), request.range.offset, memory.data(),
                           memory.size(), expected, as_terms(request.timeouts), arrived, &on_done,
                           pending);
  };
  std::string what = fmt::format("read {} bytes at {} of {}/{}", request.range.size,
                                 request.range.offset, name_, request.key);
  Result<ResponsePtr> response = co_await call(context, what, request.timeouts.report, start);
  const bool is_filled = response && !(*response)->is_unverified;
  // Bytes that arrived before an interruption are not requested again.
  counters_.add_read(is_filled ? request.range.size : request.progress.bytes());
  if (!response) co_return Error(response.error());
  co_return is_filled ? ReadResult::kFilled : ReadResult::kUnverified;
}

}  // namespace leat
