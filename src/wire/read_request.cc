// SPDX-License-Identifier: Apache-2.0
#include "wire/read_request.h"

#include <fmt/format.h>

#include "base/check.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

Result<std::string> member(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  if (found != request.query.end()) return found->second;
  return wrong(fmt::format("the request has no '{}'", name));
}

// "A-B", both ends included.
std::optional<ByteRange> parse_ends(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto first = parse_decimal<uint64_t>(text.substr(0, dash));
  const auto last = parse_decimal<uint64_t>(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last >= UINT64_MAX) return std::nullopt;
  return ByteRange{*first, *last - *first + 1};
}

}  // namespace

std::string range_text(const ByteRange& range) {
  return fmt::format("bytes={}-{}", range.offset, range.end() - 1);
}

Result<ByteRange> parse_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes=";
  const auto range = text.starts_with(kUnit) ? parse_ends(text.substr(kUnit.size())) : std::nullopt;
  if (range) return *range;
  return wrong(fmt::format("'{}' is not one range of the form bytes=A-B", text));
}

std::string content_range_text(const ContentRange& content) {
  return fmt::format("bytes {}-{}/{}", content.range.offset, content.range.end() - 1,
                     content.file_size);
}

Result<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = text.find('/');
  if (text.starts_with(kUnit) && slash != text.npos) {
    const auto range = parse_ends(text.substr(kUnit.size(), slash - kUnit.size()));
    const auto size = parse_decimal<uint64_t>(text.substr(slash + 1));
    if (range && size && range->end() <= *size) return ContentRange{*range, *size};
  }
  return wrong(fmt::format("'{}' is not of the form bytes A-B/SIZE", text));
}

Result<> check_range(const ByteRange& range, uint64_t file_size) {
  if (range.empty()) return wrong("the range is empty");
  if (range.size > kPeerReadBytesMax) {
    return wrong(fmt::format("a range of {} is more than the {} of a request",
                             format_bytes(range.size), format_bytes(kPeerReadBytesMax)));
  }
  if (range.offset < file_size && range.size <= file_size - range.offset) return {};
  return error(StatusCode::kOutOfRange, fmt::format("{} bytes from {} on are not within {}",
                                                    range.size, range.offset, file_size));
}

HttpRequest to_fd_request(const PeerReadRequest& request) {
  HttpRequest http;
  http.method = "DESCRIPTOR";
  http.path = kBytesPath;
  http.query = {{"mount", request.mount},
                {"store", request.file.store.to_hex()},
                {"key", request.file.key},
                {"version", version_text(request.file.version)},
                {"size", fmt::format_int(request.file.size).str()}};
  put_request_header(request.header, http);
  return http;
}

Result<PeerReadRequest> fd_request_from(const HttpRequest& http) {
  LEAT_TRY(std::string mount, member(http, "mount"));
  LEAT_CHECK_OK(check_mount(mount));
  LEAT_TRY(const std::string store_text, member(http, "store"));
  LEAT_TRY(const StoreId store, parse_store(store_text));
  LEAT_TRY(std::string key, member(http, "key"));
  LEAT_CHECK_OK(check_key(key, false));
  LEAT_TRY(const std::string text, member(http, "version"));
  LEAT_TRY(Version version, parse_version(text));
  LEAT_TRY(const std::string size_text, member(http, "size"));
  const auto size = parse_decimal<uint64_t>(size_text);
  if (!size) return wrong(fmt::format("'{}' is no size", size_text));
  LEAT_TRY(const PeerRequestHeader header, request_header_of(http));
  return PeerReadRequest{std::move(mount),
                         FileRef::make(store, std::move(key), std::move(version), *size),
                         {0, *size},
                         header};
}

HttpRequest to_http(const PeerReadRequest& request) {
  LEAT_CHECK(!request.range.empty());
  HttpRequest http = to_fd_request(request);
  http.method = "GET";
  http.headers.set("Range", range_text(request.range));
  return http;
}

Result<PeerReadRequest> read_request_from(const HttpRequest& http) {
  LEAT_TRY(PeerReadRequest request, fd_request_from(http));
  LEAT_TRY(request.range, parse_range(http.headers.find("range").value_or("")));
  LEAT_CHECK_OK(check_range(request.range, request.file.size));
  return request;
}

}  // namespace leat
