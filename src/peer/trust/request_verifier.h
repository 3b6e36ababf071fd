// SPDX-License-Identifier: Apache-2.0
// RequestVerifier: who signed a request, if anybody did whom this worker believes.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/adaptive_mutex.h"
#include "model/worker_id.h"
#include "peer/trust/cluster_secret.h"
#include "peer/trust/replay_guard.h"
#include "peer/trust/request_signature.h"
#include "peer/trust/token.h"

namespace leat {

struct Principal {
  std::string name;
  Rights rights;
  std::optional<WorkerId> worker;  // where it is one
  Id128 token;                     // of the token, for logs
};
using PrincipalPtr = std::shared_ptr<const Principal>;

struct RequestVerifierOptions {
  WorkerId self;                // whom requests must be for; zero: it is not looked at
  std::string instance{};       // of this process, for what is more than asked; empty: likewise
  int64_t skew_s = 300;         // between a request's date and our clock
  size_t tokens_max = 4096;     // whose keys are kept; the one goes that was used least lately
  ReplayGuardOptions replay{};  // its idle_s is longer than twice the skew, or equal
  std::function<int64_t()> now = seconds_now;
};

// Thread-safe; a request of a known token costs about 1.5 µs.
class RequestVerifier {
 public:
  RequestVerifier(SecretSetPtr secrets, RequestVerifierOptions options);

  // kPermissionDenied says what to do: not signed, clocks that differ (both times), a key that is
  // none of ours or a request that was changed, a token that has expired, a request that was seen.
  // Signed well, and out of date since a worker restarted: kBusy, for another worker; kChanged, for
  // a process of this worker before this one. Takes each signature once.
  Result<PrincipalPtr> verify(const HttpRequest& request);

  const std::string& instance() const { return options_.instance; }

  // From now on; tokens of secrets that are no more are believed no more.
  void set_secrets(SecretSetPtr secrets);

 private:
  // A token whose key has signed something.
  struct Known {
    std::string claims;
    HmacKey key;
    uint64_t number;  // for the session
    int64_t expires;
    PrincipalPtr principal;
  };
  using KnownPtr = std::shared_ptr<const Known>;
  struct Tokens {
    SecretSetPtr secrets;
    std::list<KnownPtr> by_use;  // latest first
    std::unordered_map<std::string_view, std::list<KnownPtr>::iterator> by_claims;
  };

  Result<> check_date(std::string_view date, int64_t now, int64_t& seconds) const;
  Result<KnownPtr> find_signer(const HttpRequest& request, std::string_view claims);
  void keep(KnownPtr known, const SecretSetPtr& secrets);
  Result<> check_receiver(const HttpRequest& request) const;
  Result<> check_instance(const HttpRequest& request) const;
  Result<> check_replay(const Known& known, std::string_view nonce, int64_t date, int64_t now);

  const RequestVerifierOptions options_;
  AdaptiveMutex mutex_;  // leaf
  Tokens tokens_;
  ReplayGuard replay_;
};

}  // namespace leat
