// SPDX-License-Identifier: Apache-2.0
#include "http/status_codes.h"

namespace leat {

int http_status_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotDirectory:
    case StatusCode::kIsDirectory:
      return 400;
    case StatusCode::kPermissionDenied:
    case StatusCode::kReadOnly:
      return 403;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kExists:
    case StatusCode::kBusy:
    case StatusCode::kVersionChanged:
    case StatusCode::kNotEmpty:
    case StatusCode::kCrossDevice:
    case StatusCode::kConflict:
      return 409;
    case StatusCode::kOutOfRange:
      return 416;
    case StatusCode::kThrottled:
      return 429;
    case StatusCode::kUnsupported:
      return 501;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return 503;
    case StatusCode::kTimedOut:
      return 504;
    case StatusCode::kNoSpace:
      return 507;
    case StatusCode::kInternal:
    case StatusCode::kCorrupt:
      break;
  }
  return 500;
}

std::optional<StatusCode> status_code_named(std::string_view name) {
  for (int code = static_cast<int>(StatusCode::kInternal);
       code <= static_cast<int>(StatusCode::kConflict); ++code) {
    if (to_string(static_cast<StatusCode>(code)) == name) return static_cast<StatusCode>(code);
  }
  return std::nullopt;
}

}  // namespace leat
