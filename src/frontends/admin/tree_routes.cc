// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/tree_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace leat {
namespace {

// Keeps a page well below the client's limit for one answer, 64 MiB.
constexpr uint64_t kEntriesMax = 10'000;
// Names visited for the cached sums of one answer: some 20 ms. They are divided among its
// directories, with a minimum for each.
constexpr uint64_t kSummedNamesMax = 10'000;
constexpr uint64_t kSummedNamesEach = 50;
// Size of one read of a streamed file, and number of pieces to prefetch.
constexpr uint64_t kPieceBytes = 4 * kMiB;
constexpr uint64_t kPiecesAhead = 4;

Result<std::string> path_of(const HttpRequest& request) {
  auto path = request.query.find("path");
  if (path == request.query.end()) {
    return error(StatusCode::kInvalidArgument, "the query names no path; add ?path=/…");
  }
  return normalise_path(path->second);
}

Result<uint64_t> number_of(const HttpRequest& request, const char* name, uint64_t otherwise) {
  auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  const std::string& text = found->second;
  uint64_t value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return error(StatusCode::kInvalidArgument, fmt::format("{}={} is not a number", name, text));
  }
  return value;
}

bool flag_of(const HttpRequest& request, const char* name) {
  auto found = request.query.find(name);
  return found != request.query.end() && found->second != "0" && found->second != "false";
}

std::string source_url(const CatalogEntry& entry) {
  return entry.mount ? fmt::format("{}/{}", entry.mount->source->name(), entry.key()) : "";
}

struct FileStream {
  Fetcher* fetcher;
  FileRefPtr ref;
  ByteRange range;  // what is left
  Bytes first;      // already read, ends where `range` starts
  Context context;
};

ByteRange next_piece(const FileStream& file) {
  return {file.range.offset, std::min(kPieceBytes, file.range.size)};
}

void prefetch_ahead(const FileStream& file) {
  ByteRange piece = next_piece(file);
  for (uint64_t i = 0; i < kPiecesAhead && !piece.empty(); ++i) {
    file.fetcher->prefetch(file.ref, piece);
    uint64_t left = file.range.end() - piece.end();
    piece = {piece.end(), std::min(kPieceBytes, left)};
  }
}

Task<Result<>> send_file(FileStream file, std::shared_ptr<BodyWriter> writer) {
  prefetch_ahead(file);
  Result<> written = co_await writer->write(std::exchange(file.first, Bytes()));
  while (written && !file.range.empty()) {
    ByteRange piece = next_piece(file);
    Result<Bytes> bytes = co_await file.fetcher->read(file.context, file.ref, piece);
    if (!bytes) co_return Error(bytes.error());
    file.range = {piece.end(), file.range.size - piece.size};
    prefetch_ahead(file);
    written = co_await writer->write(std::move(*bytes));
  }
  co_return written;
}

}  // namespace

void TreeRoutes::add_to(HttpRouter& router) {
  router.add("GET", "/v1/ls", [this](Context context, HttpRequest request) {
    return list(std::move(context), std::move(request));
  });
  router.add("GET", "/v1/stat", [this](Context context, HttpRequest request) {
    return stat(std::move(context), std::move(request));
  });
  router.add("GET", "/v1/below", [this](Context context, HttpRequest request) {
    return below(std::move(context), std::move(request));
  });
  router.add("GET", "/v1/cat", [this](Context context, HttpRequest request) {
    return cat(std::move(context), std::move(request));
  });
}

EntryView TreeRoutes::view(const CatalogEntry& entry, bool with_cached) const {
  EntryView view{.name = entry.info.name, .kind = entry.info.kind, .mtime = entry.info.mtime};
  if (entry.info.is_directory()) return view;
  view.size = entry.info.size;
  view.version = entry.ref->version.to_string();
  if (with_cached && store_ != nullptr && entry.ref) {
    view.cached_bytes = store_->cached_bytes(*entry.ref);
  }
  return view;
}

Task<HttpResponse> TreeRoutes::list(Context context, HttpRequest request) {
  Result<std::string> path = path_of(request);
  if (!path) co_return error_response(path.error());
  Result<uint64_t> limit = number_of(request, "limit", kEntriesMax);
  if (!limit) co_return error_response(limit.error());
  ListingPtr paged = request.query.contains("after") ? paged_.find(*path) : nullptr;
  if (paged)
    co_return HttpResponse::json(200, dump_json(to_json(page(request, *path, paged, *limit))));

  Result<CatalogEntry> found = co_await catalog_.lookup(context, *path);
  if (!found) co_return error_response(found.error());
  if (!found->info.is_directory()) {
    ListView itself{.path = *path, .kind = found->info.kind};
    itself.entries.push_back(view(*found, flag_of(request, "cached")));
    co_return HttpResponse::json(200, dump_json(to_json(itself)));
  }
  Result<ListingPtr> listing = co_await catalog_.list(context, *path);
  if (!listing) co_return error_response(listing.error());
  co_return HttpResponse::json(200, dump_json(to_json(page(request, *path, *listing, *limit))));
}

ListView TreeRoutes::page(const HttpRequest& request, std::string path, const ListingPtr& listing,
                          uint64_t limit) {
  ListView answer{.path = path, .skipped = listing->skipped()};
  auto after = request.query.find("after");
  Listing::Cursor cursor =
      after == request.query.end() ? listing->from(0) : listing->after(after->second);
  uint64_t take = std::clamp<uint64_t>(limit, 1, kEntriesMax);
  bool with_cached = flag_of(request, "cached");
  bool more = cursor.next();
  for (; more && answer.entries.size() < take; more = cursor.next()) {
    answer.entries.push_back(view(cursor.entry(), with_cached));
  }
  if (flag_of(request, "below")) add_sums(answer);
  if (more) {
    answer.next = answer.entries.back().name;
    paged_.add(std::move(path), listing);
  }
  return answer;
}

void TreeRoutes::add_sums(ListView& list) const {
  const auto directories = static_cast<uint64_t>(
      std::ranges::count(list.entries, FileKind::kDirectory, &EntryView::kind));
  if (directories == 0) return;
  const uint64_t each = std::max(kSummedNamesMax / directories, kSummedNamesEach);
  for (EntryView& entry : list.entries) {
    if (entry.kind != FileKind::kDirectory) continue;
    entry.below =
        sums_.of(list.path == "/" ? "/" + entry.name : list.path + "/" + entry.name, each);
  }
}

Task<HttpResponse> TreeRoutes::below(Context, HttpRequest request) {
  Result<std::string> path = path_of(request);
  if (!path) co_return error_response(path.error());
  co_return HttpResponse::json(200, dump_json(to_json(sums_.of(*path, kSummedNamesMax))));
}

Task<HttpResponse> TreeRoutes::stat(Context context, HttpRequest request) {
  Result<std::string> path = path_of(request);
  if (!path) co_return error_response(path.error());
  Result<CatalogEntry> found = co_await catalog_.lookup(context, *path);
  if (!found) co_return error_response(found.error());
  StatView answer{.entry = view(*found, true), .path = *path, .source = source_url(*found)};
  if (found->mount) answer.mount = found->mount->entry.path;
  const bool passthrough = find_fuse_mount(answer);
  if (!answer.fuse_mount.empty() && found->ref) {
    bool by_kernel = passthrough && kernel_may_read(*found, *path);
    if (passthrough && !by_kernel)
      by_kernel = co_await is_fd_passed(std::move(context), found->ref);
    answer.served_by = by_kernel ? "kernel" : "daemon";
  }
  co_return HttpResponse::json(200, dump_json(to_json(answer)));
}

// Sets the mount point that shows the path; returns true if it uses passthrough.
bool TreeRoutes::find_fuse_mount(StatView& view) const {
  bool passthrough = false;
  for (const MountView& mount : daemon_.mounts()) {
    if (!mount.own_fuse_mount || !is_at_or_below(view.path, mount.path)) continue;
    if (mount.path.size() < view.fuse_mount.size()) continue;
    view.fuse_mount = mount.path;
    auto feature = mount.features.find("passthrough");
    passthrough = feature != mount.features.end() && feature->second;
  }
  return passthrough;
}

// Same decision as an open (vfs/versioned_file.cc), without is_fd_passed().
bool TreeRoutes::kernel_may_read(const CatalogEntry& entry, const std::string& path) const {
  if (entry.ref->cache == CacheUse::kBypass) {
    const std::string_view below = path_below(path, entry.mount->entry.path);
    return entry.mount->freshness_of(below).mode == Freshness::Mode::kImmutable;
  }
  return entry.ref->cache == CacheUse::kDisk && store_ != nullptr &&
         store_->backing(*entry.ref) != nullptr;
}

// Returns true if another process of this host provides the file by fd passing.
Task<bool> TreeRoutes::is_fd_passed(Context context, FileRefPtr file) {
  if (file->cache == CacheUse::kBypass || !fetcher_.has_local_file(*file)) co_return false;
  Result<SourceFilePtr> passed = co_await fetcher_.open_file(context, file);
  co_return passed && *passed != nullptr;
}

Task<HttpResponse> TreeRoutes::cat(Context context, HttpRequest request) {
  Result<std::string> path = path_of(request);
  if (!path) co_return error_response(path.error());
  Result<uint64_t> offset = number_of(request, "offset", 0);
  if (!offset) co_return error_response(offset.error());
  Result<uint64_t> size = number_of(request, "size", UINT64_MAX);
  if (!size) co_return error_response(size.error());

  Result<CatalogEntry> found = co_await catalog_.lookup_for_open(context, *path);
  if (!found) co_return error_response(found.error());
  if (!found->ref) {
    co_return error_response(
        Status(StatusCode::kIsDirectory, fmt::format("cannot read {}: it is a directory", *path)));
  }
  uint64_t file_size = found->ref->size;
  if (*offset > file_size) {
    co_return error_response(
        Status(StatusCode::kOutOfRange,
               fmt::format("cannot read {} from {}: it has {} bytes", *path, *offset, file_size)));
  }
  ByteRange range{*offset, std::min(*size, file_size - *offset)};
  FileStream file{&fetcher_, found->ref, range, {}, context};
  // Reads the first piece before the head is sent, so that most failures still get a status.
  ByteRange piece = next_piece(file);
  if (!piece.empty()) {
    Result<Bytes> first = co_await fetcher_.read(context, found->ref, piece);
    if (!first) co_return error_response(first.error());
    file.first = std::move(*first);
    file.range = {piece.end(), range.size - piece.size};
  }
  HttpResponse response;
  response.headers.set("Content-Type", "application/octet-stream");
  response.headers.set("leat-size", std::to_string(range.size));
  response.stream = [file](std::shared_ptr<BodyWriter> writer) {
    return send_file(file, std::move(writer));
  };
  co_return response;
}

}  // namespace leat
