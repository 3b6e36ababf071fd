// SPDX-License-Identifier: Apache-2.0
// Creates the files by which workers and clients of a cluster authenticate each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "auth/token.h"
#include "base/status.h"

namespace leat {

// Writes a file that only its owner may read. kExists if it exists: no file is overwritten.
Result<> write_secret_file(const std::string& path, const std::string& text);

struct TokenRequest {
  std::string secret_file;  // the workers'
  std::string principal;
  std::vector<std::string> readable{};  // paths of the namespace; empty: all
  std::vector<std::string> writable{};  // paths of the namespace; empty: none
  std::vector<std::string> jobs{};      // paths where it may start jobs of the cluster; empty: none
  bool admin = false;                   // all rights
  uint64_t days = 0;                    // 0: for ever
};

// Writes a token to `file`, and returns its claims.
Result<TokenClaims> write_token(const std::string& file, const TokenRequest& request);

}  // namespace leat
