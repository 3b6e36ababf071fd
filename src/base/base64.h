// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, 4), with padding: bytes inside JSON. Base64url (5), without padding: bytes in
// header fields, file names and targets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leat {

std::string base64(std::string_view bytes);
// Returns nothing if `text` is not a valid encoding. Other characters, blanks, a length that is no
// multiple of four, and missing or misplaced padding are errors.
std::optional<std::string> from_base64(std::string_view text);

std::string base64url(std::string_view bytes);
// Returns nothing for text that base64url() does not write, including padding and non-zero leftover
// bits.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace leat
