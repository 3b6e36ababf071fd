// SPDX-License-Identifier: Apache-2.0
// RequestSigner: signs a process's requests with its token, so that a receiver knows who asks, that
// nothing was changed on the way and that it is not asked twice. docs/formats/peer-protocol.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/message.h"
#include "peer/trust/hmac.h"
#include "peer/trust/token.h"

namespace leat {

inline constexpr char kTokenField[] = "leat-token";
inline constexpr char kDateField[] = "leat-date";
inline constexpr char kNonceField[] = "leat-nonce";
inline constexpr char kSignatureField[] = "leat-signature";
// For which worker the request is, so that nobody sends it on to another one.
inline constexpr char kToField[] = "leat-to";

// Of a request that changes something: which process of that worker it is for, so that the next one
// does not take it again. A worker tells it in the same field where it refuses a request.
inline constexpr char kInstanceField[] = "leat-instance";

// Whether a request asks only, so that it does no harm to answer it twice.
bool only_asks(const HttpRequest& request);
// As it is sent: path and query, encoded.
std::string target_of(const HttpRequest& request);
// The lines that are signed. Date and nonce are those of the request.
std::string signed_text(const HttpRequest& request);

// Seconds since 1970 by this host's clock.
int64_t seconds_now();

struct RequestSignerOptions {
  std::function<int64_t()> now = seconds_now;
  uint64_t session = 0;  // 0: drawn
};

// One for a process and a credential. Thread-safe; one signature costs about 1.5 µs. Each attempt
// at a request has to be signed anew, since a receiver takes a signature once.
class RequestSigner {
 public:
  explicit RequestSigner(Token token, RequestSignerOptions options = {});

  // After the last change of the request; signs it anew where it was signed before. Every field
  // that begins with `leat-` is signed, of the others Range and Cache-Control.
  void sign(HttpRequest& request);

  // From now on with that token; false where it is the one from before.
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
