// SPDX-License-Identifier: Apache-2.0
// PeerReadRequest: bytes of one version of one file, asked of another worker; both ways between
// that and HTTP. Reading is strict and believes nothing: a FileRef's id is derived, never sent.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"
#include "http/message.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "peer/peer_terms.h"

namespace leat {

inline constexpr char kBytesPath[] = "/peer/v1/bytes";
// A file of up to two stripes of 64 MiB is one stripe, and more than a stripe has no one owner.
inline constexpr uint64_t kPeerReadBytesMax = 128 * kMiB;

struct PeerReadRequest {
  std::string mount;  // its path in the namespace
  FileRef file;       // `cache` and `pool` do not travel: they are the receiver's to know
  ByteRange range;    // within the file, not empty
  PeerTerms terms{};
};

// Not signed yet.
HttpRequest to_http(const PeerReadRequest& request);
// Whatever the method. kInvalidArgument, or kOutOfRange for a range that is not within the file.
Result<PeerReadRequest> read_request_from(const HttpRequest& request);

// The same for a file's descriptor: without a range, which is the whole file.
HttpRequest to_descriptor_request(const PeerReadRequest& request);
Result<PeerReadRequest> descriptor_request_from(const HttpRequest& request);

// "bytes=A-B" (RFC 9110, 14.1.2), one range that has both ends.
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

// Whether a range may be asked of a file at all; as read_request_from() says it.
Result<> check_range(const ByteRange& range, uint64_t file_size);

}  // namespace leat
