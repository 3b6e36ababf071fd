// SPDX-License-Identifier: Apache-2.0
// Status and Result: how every module reports failure. No exception crosses a module. A code exists
// only because some caller reacts to it; everything else is in the message.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace leat {

enum class StatusCode : uint8_t {
  kInternal = 1,      // a defect, or an unexpected response
  kInvalidArgument,   // the request can never succeed as it stands
  kNotFound,          // no such object, path, mount or page
  kExists,            // it exists already
  kNotDirectory,      // a path component is a file
  kIsDirectory,       // a file was expected
  kPermissionDenied,  // the store or the catalog denied this principal
  kReadOnly,          // the mount does not accept changes
  kVersionChanged,    // the object no longer has the requested version (ESTALE)
  kOutOfRange,        // offset past the end
  kUnavailable,       // store or daemon is unreachable or failing; retry may help
  kThrottled,         // the store requested a lower request rate
  kTimedOut,          // the deadline passed
  kCancelled,         // the caller cancelled
  kCorrupt,           // a checksum or a format did not match
  kNoSpace,           // capacity or disk is full
  kUnsupported,       // store, kernel or build lacks it
  kBusy,              // locked by another party; try later
  kNotEmpty,          // a directory has names in it
  kCrossDevice,       // source and target of a rename are in different mounts
  kConflict,          // somebody else changed the object meanwhile
};

// Stable lower-case name, as it appears in logs, JSON and metrics: "not_found".
std::string_view to_string(StatusCode code);

// An error. Small and cheap to move. `cause` is the chain of underlying errors, innermost last.
class [[nodiscard]] Status {
 public:
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  Status(StatusCode code, std::string message, Status cause)
      : code_(code),
        message_(std::move(message)),
        cause_(std::make_shared<const Status>(std::move(cause))) {}

  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const Status* cause() const { return cause_.get(); }

  // Returns "cannot read s3://b/k: store answered 503 SlowDown: …", causes joined by ": ". Omits a
  // cause that a message above it already contains.
  std::string to_string() const;

  // The same code with one more sentence of context in front.
  Status with_context(std::string message) const { return {code_, std::move(message), *this}; }

 private:
  StatusCode code_;
  std::string message_;
  std::shared_ptr<const Status> cause_;
};

template <class T = void>
using Result = std::expected<T, Status>;

using Error = std::unexpected<Status>;

inline Error error(StatusCode code, std::string message) {
  return Error(Status(code, std::move(message)));
}
inline Error error(Status status) {
  return Error(std::move(status));
}

// Status from errno after a failed system call; `what` names object and operation.
Status status_from_errno(int errnum, std::string what);

}  // namespace leat

#define LEAT_CONCAT_INNER(a, b) a##b
#define LEAT_CONCAT(a, b) LEAT_CONCAT_INNER(a, b)
#define LEAT_TRY_INNER(tmp, ret, decl, ...)                \
  auto tmp = (__VA_ARGS__);                                \
  if (!tmp) ret ::std::unexpected(std::move(tmp).error()); \
  decl = std::move(tmp).value()

// `LEAT_TRY(auto x, expr);` binds the value of a Result or returns its error.
#define LEAT_TRY(decl, ...) \
  LEAT_TRY_INNER(LEAT_CONCAT(leat_try_, __LINE__), return, decl, __VA_ARGS__)
// The same in a coroutine; the expression may hold one co_await.
#define LEAT_CO_TRY(decl, ...) \
  LEAT_TRY_INNER(LEAT_CONCAT(leat_try_, __LINE__), co_return, decl, __VA_ARGS__)

// For Result<void>: return the error, if any.
#define LEAT_CHECK_OK(...)                            \
  if (auto leat_status = (__VA_ARGS__); !leat_status) \
  return ::std::unexpected(std::move(leat_status).error())
#define LEAT_CO_CHECK_OK(...)                         \
  if (auto leat_status = (__VA_ARGS__); !leat_status) \
  co_return ::std::unexpected(std::move(leat_status).error())
