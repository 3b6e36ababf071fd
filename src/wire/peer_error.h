// SPDX-License-Identifier: Apache-2.0
// Errors of the peer protocol, both ways: a Status as HTTP status and JSON,
// {"error":{"code":…,"message":…}}. Code and message survive the round trip; causes are part of the
// message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/message.h"

namespace leat {

inline constexpr int kHttpUnsigned = 401;     // kPermissionDenied: no valid signature
inline constexpr int kHttpMisdirected = 421;  // kBusy: another worker is responsible
inline constexpr int kHttpNotCached = 504;  // kNotFound: not cached, and the store must not be used

// From the code alone: kNotFound is 404, kPermissionDenied 403.
int peer_error_http(StatusCode code);

std::string encode_peer_error(const Status& status);
// Accepts any body with a status other than 2xx. A foreign format is kUnavailable: the server is no
// worker. An unknown code is kInternal.
Status decode_peer_error(int http, std::string_view body);

// `epoch` is the ring epoch of the answering worker.
HttpResponse peer_error_response(int http, const Status& status, int64_t epoch);
inline HttpResponse peer_error_response(const Status& status, int64_t epoch) {
  return peer_error_response(peer_error_http(status.code()), status, epoch);
}

}  // namespace leat
