// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace leat {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kInternal:
      return "internal";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kExists:
      return "exists";
    case StatusCode::kNotDirectory:
      return "not_directory";
    case StatusCode::kIsDirectory:
      return "is_directory";
    case StatusCode::kPermissionDenied:
      return "permission_denied";
    case StatusCode::kReadOnly:
      return "read_only";
    case StatusCode::kVersionChanged:
      return "changed";
    case StatusCode::kOutOfRange:
      return "out_of_range";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kThrottled:
      return "throttled";
    case StatusCode::kTimedOut:
      return "timed_out";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kCorrupt:
      return "corrupt";
    case StatusCode::kNoSpace:
      return "no_space";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kBusy:
      return "busy";
    case StatusCode::kNotEmpty:
      return "not_empty";
    case StatusCode::kCrossDevice:
      return "cross_device";
    case StatusCode::kConflict:
      return "conflict";
  }
  return "internal";
}

namespace {

// Returns whether `text` contains `sentence` as a whole, delimited by an end of the text, ": " or
// "; ". A comma may follow it, too.
bool says(std::string_view text, std::string_view sentence) {
  auto begins = [&](size_t at) {
    return at == 0 ||
           (at >= 2 && text[at - 1] == ' ' && (text[at - 2] == ':' || text[at - 2] == ';'));
  };
  auto ends = [&](size_t at) {
    return at == text.size() || text[at] == ':' || text[at] == ';' || text[at] == ',';
  };
  for (size_t at = text.find(sentence); at != text.npos; at = text.find(sentence, at + 1)) {
    if (begins(at) && ends(at + sentence.size())) return true;
  }
  return false;
}

}  // namespace

std::string Status::to_string() const {
  std::string text = message_;
  for (const Status* below = cause(); below != nullptr; below = below->cause()) {
    if (below->message().empty() || says(text, below->message())) continue;
    text += ": ";
    text += below->message();
  }
  return text;
}

namespace {

StatusCode code_from_errno(int errnum) {
  switch (errnum) {
    case ENOENT:
      return StatusCode::kNotFound;
    case EEXIST:
      return StatusCode::kExists;
    case ENOTDIR:
      return StatusCode::kNotDirectory;
    case EISDIR:
      return StatusCode::kIsDirectory;
    case EACCES:
    case EPERM:
      return StatusCode::kPermissionDenied;
    case EROFS:
      return StatusCode::kReadOnly;
    case ESTALE:
      return StatusCode::kVersionChanged;
    case ENOSPC:
    case EDQUOT:
      return StatusCode::kNoSpace;
    case EINVAL:
      return StatusCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return StatusCode::kUnsupported;
    case EBUSY:
      return StatusCode::kBusy;
    case ENOTEMPTY:
      return StatusCode::kNotEmpty;
    case EXDEV:
      return StatusCode::kCrossDevice;
    case ETIMEDOUT:
      return StatusCode::kTimedOut;
    case ECANCELED:
    case EINTR:
      return StatusCode::kCancelled;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

Status status_from_errno(int errnum, std::string what) {
  return {code_from_errno(errnum),
          fmt::format("{}: {}", what, std::error_code(errnum, std::generic_category()).message())};
}

}  // namespace leat
