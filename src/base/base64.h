// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, 4), with padding: bytes inside JSON. Base64url (5), without padding: bytes in
// header fields, file names and targets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leat {

std::string base64(std::string_view bytes);
// Nothing for what is not the encoding of anything: other characters, blanks, a length that is no
// multiple of four, padding that is missing or in the middle.
std::optional<std::string> from_base64(std::string_view text);

std::string base64url(std::string_view bytes);
// Nothing for what base64url() does not write: padding, and bits left over that are not zero, too.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace leat
