// SPDX-License-Identifier: Apache-2.0
// Metadata requests to a directory's owner and their answers: GET /peer/v1/list and /peer/v1/stat,
// both ways. Keys may hold any bytes but NUL. Format: docs/formats/peer-protocol.md.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/units.h"
#include "http/message.h"
#include "source/source.h"
#include "wire/peer_request_header.h"

namespace leat {

inline constexpr char kListPath[] = "/peer/v1/list";
inline constexpr char kStatPath[] = "/peer/v1/stat";
// Names per answer; larger pages of a store are split.
inline constexpr size_t kListResponseObjectsMax = 1000;
inline constexpr uint64_t kListResponseBytesMax = 32 * kMiB;
inline constexpr size_t kListTokenBytesMax = 8 * kKiB;

struct PeerListRequest {
  std::string mount;
  StoreId store;
  std::string prefix;  // "" or ends in '/'; one level
  std::string token;   // `page.next_token` of the previous answer; empty for the first page
  // Maximum age of the owner's cached listing.
  std::chrono::milliseconds age_max{0};
  PeerRequestHeader header{};
};

struct PeerStatRequest {
  std::string mount;
  StoreId store;
  std::string key;  // ends in '/' for a directory
  std::chrono::milliseconds age_max{0};
  PeerRequestHeader header{};
};

struct ListResponse {
  ListPage page;
  std::chrono::milliseconds age{0};  // time since the request to the store
};

struct StatResponse {
  SourceObject object;
  std::chrono::milliseconds age{0};
};

// Requests are unsigned. Reading is strict: kInvalidArgument names the fault.
HttpRequest to_http(const PeerListRequest& request);
Result<PeerListRequest> list_request_from(const HttpRequest& request);
HttpRequest to_http(const PeerStatRequest& request);
Result<PeerStatRequest> stat_request_from(const HttpRequest& request);

// `local` is not sent: a path on one host's disk means nothing on another host.
std::string encode_list_response(const ListResponse& page);
// kInvalidArgument if keys are not sorted or not below `prefix`, or there are more than
// kListResponseObjectsMax. Unknown kinds count as skipped.
Result<ListResponse> decode_list_response(std::string_view json, std::string_view prefix);
std::string encode_stat_response(const StatResponse& stat);
Result<StatResponse> decode_stat_response(std::string_view json);

}  // namespace leat
