// SPDX-License-Identifier: Apache-2.0
// The files by which workers and clients of a cluster know each other, made anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "peer/trust/token.h"

namespace leat {

// Only its owner may read it. kExists where a file is there already: none is written over.
Result<> write_secret_file(const std::string& path, const std::string& text);

struct TokenOrder {
  std::string secret_file;  // the workers'
  std::string principal;
  std::vector<std::string> readable{};  // paths of the namespace; none: all of it
  std::vector<std::string> writable{};  // likewise; none: nothing
  std::vector<std::string> jobs{};      // where it may order jobs of the cluster; none: nowhere
  bool admin = false;                   // all of it
  uint64_t days = 0;                    // 0: for ever
};

// Writes such a token to `file`; what it claims.
Result<TokenClaims> write_token(const std::string& file, const TokenOrder& order);

}  // namespace leat
