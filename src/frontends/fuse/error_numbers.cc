// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/error_numbers.h"

#include <cerrno>

namespace leat {

int to_errno(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return EINVAL;
    case StatusCode::kNotFound:
      return ENOENT;
    case StatusCode::kExists:
      return EEXIST;
    case StatusCode::kNotDirectory:
      return ENOTDIR;
    case StatusCode::kIsDirectory:
      return EISDIR;
    case StatusCode::kPermissionDenied:
      return EACCES;
    case StatusCode::kReadOnly:
      return EROFS;
    // The kernel looks the name up again and opens the present version.
    case StatusCode::kVersionChanged:
      return ESTALE;
    case StatusCode::kCancelled:
      return EINTR;
    case StatusCode::kTimedOut:
      return ETIMEDOUT;
    case StatusCode::kNoSpace:
      return ENOSPC;
    case StatusCode::kUnsupported:
      return EOPNOTSUPP;
    case StatusCode::kBusy:
      return EBUSY;
    case StatusCode::kNotEmpty:
      return ENOTEMPTY;
    case StatusCode::kCrossDevice:
      return EXDEV;
    // Programs do not expect EAGAIN from a file; lower layers have already retried these errors.
    case StatusCode::kUnavailable:
    case StatusCode::kThrottled:
    case StatusCode::kCorrupt:
    case StatusCode::kOutOfRange:
    case StatusCode::kInternal:
    case StatusCode::kConflict:
      return EIO;
  }
  return EIO;
}

bool worth_logging(StatusCode code) {
  switch (code) {
    case StatusCode::kNotFound:
    case StatusCode::kNotDirectory:
    case StatusCode::kIsDirectory:
    case StatusCode::kReadOnly:
    case StatusCode::kVersionChanged:
    case StatusCode::kCancelled:
    case StatusCode::kExists:
    case StatusCode::kNotEmpty:
    case StatusCode::kCrossDevice:
      return false;
    default:
      return true;
  }
}

bool is_refusal(StatusCode code) {
  return code == StatusCode::kReadOnly || code == StatusCode::kCrossDevice;
}

}  // namespace leat
