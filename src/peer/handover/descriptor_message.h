// SPDX-License-Identifier: Apache-2.0
// DescriptorRequest and its answer, as they go over a Unix socket: a signed request in lines, and
// one byte with a descriptor beside it. Format: docs/formats/peer-protocol.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/message.h"
#include "runtime/disk.h"

namespace leat {

inline constexpr char kDescriptorMethod[] = "DESCRIPTOR";
inline constexpr size_t kDescriptorRequestBytesMax = 32 * 1024;
inline constexpr size_t kDescriptorFieldsMax = 32;

// Method, target and fields; the rest of the request does not travel.
std::string encode_descriptor_request(const HttpRequest& request);
// The whole of a request, its empty line included. kInvalidArgument says what is wrong.
Result<HttpRequest> decode_descriptor_request(std::string_view text);
// Where the first request in `text` ends; nothing while that is still to come.
std::optional<size_t> end_of_descriptor_request(std::string_view text);

// What there is at a socket now, without waiting; kBusy where one would have to wait.
struct DescriptorAnswer {
  bool given = false;
  File file;  // close-on-exec, where it was given
};
Result<> send_descriptor_answer(int socket, const File& file);  // no file: it is not given
// kUnavailable where the other end has closed, kCorrupt for what is no answer. Whatever descriptors
// came with that are closed.
Result<DescriptorAnswer> receive_descriptor_answer(int socket);

// Another open file of the same inode, for reading only: who gets it can neither write nor change
// the flags of `fd` nor its offset. Blocks.
Result<File> open_again_for_reading(int fd);

}  // namespace leat
