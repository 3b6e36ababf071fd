// SPDX-License-Identifier: Apache-2.0
// A request for a descriptor and its answer on a Unix socket: a signed request as lines of text,
// answered by one byte and an SCM_RIGHTS descriptor. Format: docs/formats/peer-protocol.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/message.h"
#include "runtime/disk.h"

namespace leat {

inline constexpr char kFdMethod[] = "DESCRIPTOR";
inline constexpr size_t kFdRequestBytesMax = 32 * 1024;
inline constexpr size_t kFdFieldsMax = 32;

// Encodes method, target and fields; other parts of the request are not sent.
std::string encode_fd_request(const HttpRequest& request);
// `text` is one whole request with its empty line. kInvalidArgument names the fault.
Result<HttpRequest> decode_fd_request(std::string_view text);
// Returns the end of the first request in `text`; nothing while it is incomplete.
std::optional<size_t> end_of_fd_request(std::string_view text);

// Answer on a non-blocking socket. The functions below return kBusy instead of waiting.
struct FdAnswer {
  bool has_fd = false;
  File file;  // close-on-exec; set if `has_fd`
};
Result<> send_fd_answer(int socket, const File& file);  // an empty file answers "no descriptor"
// kUnavailable if the other end has closed, kCorrupt for a malformed answer. Descriptors received
// with an error are closed.
Result<FdAnswer> receive_fd_answer(int socket);

// Opens the inode of `fd` again, read-only. The new descriptor can neither write nor change the
// flags or offset of `fd`. Blocks.
Result<File> reopen_for_reading(int fd);

}  // namespace leat
