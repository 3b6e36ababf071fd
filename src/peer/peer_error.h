// SPDX-License-Identifier: Apache-2.0
// The errors of peers, both ways: a Status as HTTP status and JSON,
// {"error":{"code":…,"message":…}}. Code and message come back as they were; causes are in the
// message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/message.h"

namespace leat {

inline constexpr int kHttpUnsigned = 401;     // kPermissionDenied: nobody whom we believe
inline constexpr int kHttpMisdirected = 421;  // kBusy: another worker's to answer
inline constexpr int kHttpNotCached = 504;    // kNotFound: not cached, and no store may be asked

// By the code alone: of kNotFound 404, of kPermissionDenied 403.
int peer_error_http(StatusCode code);

std::string encode_peer_error(const Status& status);
// Of any body, with any status but 2xx. What is not ours is kUnavailable: it is not a worker that
// answers there. A code that is not known here is kInternal.
Status decode_peer_error(int http, std::string_view body);

// `epoch`: the ring's, as the answering worker has it.
HttpResponse peer_error_response(int http, const Status& status, int64_t epoch);
inline HttpResponse peer_error_response(const Status& status, int64_t epoch) {
  return peer_error_response(peer_error_http(status.code()), status, epoch);
}

}  // namespace leat
