// SPDX-License-Identifier: Apache-2.0
// RequestVerifier: authenticates the signer of a request.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/cluster_secret.h"
#include "auth/replay_guard.h"
#include "auth/request_signature.h"
#include "auth/token.h"
#include "base/adaptive_mutex.h"
#include "model/worker_id.h"

namespace leat {

struct Principal {
  std::string name;
  Rights rights;
  std::optional<WorkerId> worker;  // set if it is a worker
  Id128 token;                     // id of the token, for logs
};
using PrincipalPtr = std::shared_ptr<const Principal>;

struct RequestVerifierOptions {
  WorkerId self;                // Required receiver; zero: not checked.
  std::string instance{};       // Process id for mutating requests; empty: not checked.
  int64_t skew_s = 300;         // Allowed between a request's date and this clock.
  size_t tokens_max = 4096;     // Cached keys; the least recently used one is evicted.
  ReplayGuardOptions replay{};  // its idle_s must be at least twice the skew
  std::function<int64_t()> now = seconds_now;
};

// Thread-safe; a request with a cached token costs about 1.5 µs.
class RequestVerifier {
 public:
  RequestVerifier(SecretSetPtr secrets, RequestVerifierOptions options);

  // Verifies a request and accepts each signature once. kPermissionDenied says what to do:
  // unsigned, clocks differ (with both times), unknown key or changed request, expired token,
  // replay. A valid signature for another worker is kBusy; one for a previous process of this
  // worker is kVersionChanged.
  Result<PrincipalPtr> verify(const HttpRequest& request);

  const std::string& instance() const { return options_.instance; }

  // Uses `secrets` from now on; tokens of removed secrets are no longer valid.
  void set_secrets(SecretSetPtr secrets);

 private:
  // A token with a key that has verified a request.
  struct CachedToken {
    std::string claims;
    HmacKey key;
    uint64_t number;  // for the replay session
    int64_t expires;
    PrincipalPtr principal;
  };
  using CachedTokenPtr = std::shared_ptr<const CachedToken>;
  struct Tokens {
    SecretSetPtr secrets;
    std::list<CachedTokenPtr> by_use;  // most recently used first
    std::unordered_map<std::string_view, std::list<CachedTokenPtr>::iterator> by_claims;
  };

  Result<> check_date(std::string_view date, int64_t now, int64_t& seconds) const;
  Result<CachedTokenPtr> find_signer(const HttpRequest& request, std::string_view claims);
  void cache(CachedTokenPtr known, const SecretSetPtr& secrets);
  Result<> check_receiver(const HttpRequest& request) const;
  Result<> check_instance(const HttpRequest& request) const;
  Result<> check_replay(const CachedToken& known, std::string_view nonce, int64_t date,
                        int64_t now);

  const RequestVerifierOptions options_;
  AdaptiveMutex mutex_;  // leaf
  Tokens tokens_;
  ReplayGuard replay_;
};

}  // namespace leat
