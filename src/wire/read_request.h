// SPDX-License-Identifier: Apache-2.0
// PeerReadRequest: a read of one version of one file from another worker; conversion to and from
// HTTP. Reading is strict: a FileRef's id is derived, never sent.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"
#include "http/message.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "wire/peer_request_header.h"

namespace leat {

inline constexpr char kBytesPath[] = "/peer/v1/bytes";
// A file of up to two stripes of 64 MiB is one stripe; larger reads have no single owner.
inline constexpr uint64_t kPeerReadBytesMax = 128 * kMiB;

struct PeerReadRequest {
  std::string mount;  // namespace path of the mount
  FileRef file;       // `cache` and `pool` are not sent; the receiver has its own
  ByteRange range;    // within the file, not empty
  PeerRequestHeader header{};
};

// Unsigned.
HttpRequest to_http(const PeerReadRequest& request);
// Ignores the method. kInvalidArgument; kOutOfRange for a range outside the file.
Result<PeerReadRequest> read_request_from(const HttpRequest& request);

// The same for fd passing: no range, the whole file.
HttpRequest to_fd_request(const PeerReadRequest& request);
Result<PeerReadRequest> fd_request_from(const HttpRequest& request);

// "bytes=A-B" (RFC 9110, 14.1.2): one range with both ends.
std::string range_text(const ByteRange& range);
Result<ByteRange> parse_range(std::string_view text);

// "bytes A-B/SIZE" (14.4).
struct ContentRange {
  ByteRange range;
  uint64_t file_size = 0;
  friend bool operator==(const ContentRange&, const ContentRange&) = default;
};
std::string content_range_text(const ContentRange& range);
Result<ContentRange> parse_content_range(std::string_view text);

// Returns the error of read_request_from() if the range is not readable from such a file.
Result<> check_range(const ByteRange& range, uint64_t file_size);

}  // namespace leat
