// SPDX-License-Identifier: Apache-2.0
// Token: a principal and its rights, signed with a cluster's secret. The key is derived from the
// claims and the secret, so no host stores or looks up tokens. Format:
// docs/formats/peer-protocol.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/cluster_secret.h"
#include "base/id128.h"
#include "base/status.h"
#include "model/worker_id.h"

namespace leat {

enum class Right : uint8_t { kRead = 1, kWrite = 2, kAdmin = 4, kJobs = 8 };
std::string_view to_string(Right right);  // "read", "write", "admin", "jobs"

// No right implies another.
class Rights {
 public:
  struct Grant {
    std::string path;  // normalised namespace path
    uint8_t may = 0;   // bits of Right
    friend bool operator==(const Grant&, const Grant&) = default;
  };

  void add(std::string path, std::vector<Right> may);
  const std::vector<Grant>& grants() const { return grants_; }
  // Checks a normalised path against the grants on it and on its ancestors.
  bool may(std::string_view path, Right right) const;

  friend bool operator==(const Rights&, const Rights&) = default;

 private:
  std::vector<Grant> grants_;
};

struct TokenClaims {
  std::string principal;  // UTF-8, not empty
  Rights rights;
  int64_t expires = 0;  // seconds since 1970; 0: never
  Id128 id;             // of this token, for logs

  // Principal "worker:ID" with all rights on "/".
  static TokenClaims of_worker(const WorkerId& worker);
  // Returns nothing if the principal is no worker.
  std::optional<WorkerId> worker() const;

  friend bool operator==(const TokenClaims&, const TokenClaims&) = default;
};

// Decoding limits; a token travels in a header field.
inline constexpr size_t kClaimsTextMax = 8 * 1024;
inline constexpr size_t kGrantsMax = 256;

// Encodes JSON in base64url for the field `leat-token`. kInvalidArgument if the text is not UTF-8,
// has no principal, or is too large.
Result<std::string> encode_claims(const TokenClaims& claims);
// Ignores unknown members and rights.
Result<TokenClaims> decode_claims(std::string_view text);

struct Token {
  std::string claims;  // as encode_claims() wrote them
  std::string key;     // 32 bytes, the secret part
  friend bool operator==(const Token&, const Token&) = default;

  // One line, "leat-token-1 CLAIMS KEY\n"; store it in a file of mode 0600.
  std::string to_line() const;
  static Result<Token> parse(std::string_view line);
  // Blocks. Refuses a file that others may read.
  static Result<Token> read(const std::string& path);
};

// Derives the key of encoded claims, whatever they contain.
Digest token_key(const Secret& secret, std::string_view claims);
Result<Token> issue(const Secret& secret, const TokenClaims& claims);

}  // namespace leat
