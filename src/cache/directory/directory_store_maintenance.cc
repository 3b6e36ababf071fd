// SPDX-License-Identifier: Apache-2.0
// Operator commands for one cache directory: list, verify, evict.
#include <fmt/format.h>

#include <charconv>

#include "cache/directory/directory_store.h"

namespace leat {
namespace {

// Position of a listing: "f" and the id of the last file, or "s", segment and offset in its index.
struct ListCursor {
  std::optional<FileId> after_file;
  std::optional<PackedStore::ListPosition> packed;

  std::string to_string() const {
    if (packed) return fmt::format("s{}.{}", packed->sequence, packed->index_offset);
    return "f" + after_file->to_hex();
  }
};

std::optional<ListCursor> parse_cursor(std::string_view text) {
  if (text.empty()) return ListCursor{};
  const std::string_view rest = text.substr(1);
  if (text[0] == 'f') {
    std::optional<Id128> id = Id128::from_hex(rest);
    if (!id) return std::nullopt;
    return ListCursor{FileId(*id), std::nullopt};
  }
  PackedStore::ListPosition cursor;
  const char* end = rest.data() + rest.size();
  auto [dot, failed] = std::from_chars(rest.data(), end, cursor.sequence);
  if (text[0] != 's' || failed != std::errc() || dot == end || *dot != '.') return std::nullopt;
  auto [last, also_failed] = std::from_chars(dot + 1, end, cursor.index_offset);
  if (also_failed != std::errc() || last != end) return std::nullopt;
  return ListCursor{std::nullopt, cursor};
}

}  // namespace

Task<Result<ObjectPage>> DirectoryStore::objects(std::string after, size_t limit) {
  std::optional<ListCursor> cursor = parse_cursor(after);
  if (!cursor) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("'{}' is not the 'next' of an earlier page", after));
  }
  CacheDirectory* directory = directory_.get();
  co_return co_await directory->blocking([&, this]() -> Result<ObjectPage> {
    ObjectPage page;
    if (!cursor->packed) {
      std::optional<FileId> more = files_->list(cursor->after_file, limit, page.objects);
      if (more) page.next = ListCursor{more, std::nullopt}.to_string();
    }
    if (page.next.empty()) {
      const auto from = cursor->packed.value_or(PackedStore::ListPosition{});
      LEAT_TRY(auto more, packed_->list(from, limit, page.objects));
      if (more) page.next = ListCursor{std::nullopt, more}.to_string();
    }
    for (CachedObject& object : page.objects) object.directory = directory_->options.directory;
    return page;
  });
}

Task<Result<>> DirectoryStore::verify(Context context, HostCache::StepListener listener) {
  LEAT_CO_CHECK_OK(co_await flush(context));
  const uint64_t corrupt_before = directory_->corrupt_blocks - corrupt_at_start_.exchange(0);
  directory_->unverified_parts = 0;
  ScrubLimiter limiter(context, directory_->closing, 0);
  VerifyStep reported;
  auto report = [&](uint64_t) -> std::optional<ScrubState> {
    const VerifyStep now{limiter.bytes(), limiter.objects(),
                         directory_->corrupt_blocks - corrupt_before};
    listener({now.bytes - reported.bytes, now.objects - reported.objects,
              now.corrupt_blocks - reported.corrupt_blocks});
    reported = now;
    return std::nullopt;
  };
  co_await scrubber_->pass(limiter, 0, report);
  report(0);
  if (directory_->closing) {
    co_return error(StatusCode::kUnavailable, "the cache was closed before all was verified");
  }
  LEAT_CO_CHECK_OK(context.check("verifying the cache"));
  co_return unverified_parts_error();
}

// The index names the objects, so the list of lost objects cannot be complete.
Result<> DirectoryStore::unverified_parts_error() {
  const uint64_t damaged = directory_->damaged_index_bytes.exchange(0);
  if (damaged > 0) {
    return error(StatusCode::kCorrupt,
                 fmt::format("{} bytes of indexes in {}/segments were damaged; the objects that "
                             "they named were dropped and will be fetched again",
                             damaged, directory_->options.directory));
  }
  const uint64_t parts = directory_->unverified_parts;
  if (parts == 0) return {};
  return error(StatusCode::kUnavailable,
               fmt::format("{} parts of the cache {} could not be read, so they were not verified; "
                           "the log says which and why",
                           parts, directory_->options.directory));
}

Task<uint64_t> DirectoryStore::evict(std::optional<PoolId> pool, uint64_t bytes) {
  PoolPtr of = pool ? directory_->pools.get(*pool) : nullptr;
  co_return co_await evictor_->evict_now(of, bytes);
}

}  // namespace leat
