// SPDX-License-Identifier: Apache-2.0
// The console's token: 256 random bits as 64 hexadecimal digits, in the file console.token of the
// runtime directory. Every program that can read this file may use the console.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

std::string console_token_file(const std::string& runtime);

// Returns the token in the file; kNotFound if there is none. If others may know it (not a plain
// file of this user with mode 0600), kPermissionDenied. If it is no token, kCorrupt. After both the
// file must not be used.
Result<std::string> read_console_token(const std::string& runtime);

// Same for the daemon that owns the runtime directory: replaces a missing or unusable token. A
// usable one stays, so that open pages continue to work.
Result<std::string> make_console_token(const std::string& runtime);

// Constant-time comparison; the time depends only on the length of `given`.
bool same_token(std::string_view expected, std::string_view given);

}  // namespace leat
