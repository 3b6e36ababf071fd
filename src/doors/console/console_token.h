// SPDX-License-Identifier: Apache-2.0
// The console's token: 256 random bits as 64 hexadecimal digits, in the file console.token of the
// runtime directory. Whoever can read that file may use the console.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

std::string console_token_file(const std::string& runtime);

// The token in the file. kNotFound where there is none; kPermissionDenied where it may be known to
// others (not a plain file of this user with mode 0600) and kCorrupt where it is no token: then it
// is not to be used.
Result<std::string> read_console_token(const std::string& runtime);

// The same, for the daemon that holds the runtime directory: what is missing or not to be used is
// replaced by a new one, so an open page goes on with the token that it has, if it can.
Result<std::string> make_console_token(const std::string& runtime);

// Whether they are the same, in a time that depends on nothing but `given`'s length.
bool same_token(std::string_view expected, std::string_view given);

}  // namespace leat
