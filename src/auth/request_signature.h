// SPDX-License-Identifier: Apache-2.0
// RequestSigner: signs a process's requests with its token. The receiver verifies the sender and
// the content, and detects replays. docs/formats/peer-protocol.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "auth/hmac.h"
#include "auth/token.h"
#include "http/message.h"

namespace leat {

inline constexpr char kTokenField[] = "leat-token";
inline constexpr char kDateField[] = "leat-date";
inline constexpr char kNonceField[] = "leat-nonce";
inline constexpr char kSignatureField[] = "leat-signature";
// Receiving worker, so that a request cannot be forwarded to another one.
inline constexpr char kToField[] = "leat-to";

// Mutating requests: receiving process of that worker, so that its successor does not accept a
// replay. A worker sends its own in the same field when it rejects a request.
inline constexpr char kInstanceField[] = "leat-instance";

// Returns true if the request only reads, so that a replay does no harm.
bool is_read_only(const HttpRequest& request);
// Returns path and query, encoded as sent.
std::string target_of(const HttpRequest& request);
// Returns the lines that are signed, with the request's date and nonce.
std::string signed_text(const HttpRequest& request);

// Returns seconds since 1970 by this host's clock.
int64_t seconds_now();

struct RequestSignerOptions {
  std::function<int64_t()> now = seconds_now;
  uint64_t session = 0;  // 0: random
};

// One for a process and a credential. Thread-safe; one signature costs about 1.5 µs. Each attempt
// of a request must be signed again, because a receiver accepts a signature once.
class RequestSigner {
 public:
  explicit RequestSigner(Token token, RequestSignerOptions options = {});

  // Signs the finished request and replaces an older signature. Covers every `leat-` field, Range
  // and Cache-Control.
  void sign(HttpRequest& request);

  // Uses `token` from now on; returns false if it is the present one.
  bool renew(Token token);

 private:
  struct Credential {
    Token token;
    HmacKey key;
  };
  std::shared_ptr<const Credential> credential() const;

  const std::function<int64_t()> now_;
  const std::string session_;  // 16 hexadecimal digits and a dash
  std::atomic<uint64_t> counter_ = 0;
  mutable std::mutex mutex_;  // leaf; the pointer is copied under it
  std::shared_ptr<const Credential> credential_;
};

}  // namespace leat
