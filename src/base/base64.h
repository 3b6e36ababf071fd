// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, 4), with padding: bytes inside JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leat {

std::string base64(std::string_view bytes);
// Nothing for what is not the encoding of anything: other characters, blanks, a length that is no
// multiple of four, padding that is missing or in the middle.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace leat
