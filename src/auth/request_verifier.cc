// SPDX-License-Identifier: Apache-2.0
// No part of a request is trusted, parsed or stored before its signature is verified. Until then it
// costs two HMACs for each secret.
#include "auth/request_verifier.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/check.h"

namespace leat {
namespace {

// Paths that a client uses before it knows which worker is there.
constexpr std::string_view kOpenPaths[] = {"/peer/v1/ping", "/peer/v1/cluster"};

Error denied(std::string reason) {
  return error(StatusCode::kPermissionDenied, std::move(reason));
}

// Parses the whole of `text` in its canonical form.
std::optional<uint64_t> number_in(std::string_view text, int base) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, number, base);
  if (text.empty() || failed != std::errc() || stopped != end) return std::nullopt;
  return number;
}

std::string clock_text(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return std::to_string(seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

struct Nonce {
  uint64_t session = 0, counter = 0;
};

std::optional<Nonce> parse_nonce(std::string_view text) {
  constexpr size_t kDigits = 16;
  if (text.size() <= kDigits || text[kDigits] != '-') return std::nullopt;
  const auto session = number_in(text.substr(0, kDigits), 16);
  const auto counter = number_in(text.substr(kDigits + 1), 10);
  if (!session || !counter) return std::nullopt;
  return Nonce{*session, *counter};
}

std::string_view field(const HttpRequest& request, const char* name) {
  return request.headers.find(name).value_or(std::string_view());
}

uint64_t number_of(std::string_view digest) {
  uint64_t number;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

}  // namespace

RequestVerifier::RequestVerifier(SecretSetPtr secrets, RequestVerifierOptions options)
    : options_(std::move(options)), replay_(options_.replay) {
  LEAT_CHECK(secrets != nullptr && !secrets->secrets.empty());
  LEAT_CHECK(options_.tokens_max > 0 && options_.replay.idle_s >= 2 * options_.skew_s);
  tokens_.secrets = std::move(secrets);
}

void RequestVerifier::set_secrets(SecretSetPtr secrets) {
  LEAT_CHECK(secrets != nullptr && !secrets->secrets.empty());
  Tokens before;
  std::lock_guard lock(mutex_);
  std::swap(before, tokens_);
  tokens_.secrets = std::move(secrets);
}

Result<PrincipalPtr> RequestVerifier::verify(const HttpRequest& request) {
  const std::string_view claims = field(request, kTokenField);
  if (claims.empty() || !request.headers.find(kSignatureField)) {
    return denied(
        "the request is not signed, and this worker answers nothing without a token: give the "
        "client one that was made with the cluster's secret");
  }
  if (claims.size() > kClaimsTextMax) return denied("the request's token is too large");
  const int64_t now = options_.now();
  int64_t date = 0;
  LEAT_CHECK_OK(check_date(field(request, kDateField), now, date));
  LEAT_TRY(const CachedTokenPtr known, find_signer(request, claims));
  if (known->expires != 0 && known->expires <= now) {
    return denied(fmt::format("the token of '{}' ({}) expired at {}: request a new one",
                              known->principal->name, known->principal->token.to_hex(),
                              clock_text(known->expires)));
  }
  LEAT_CHECK_OK(check_receiver(request));
  LEAT_CHECK_OK(check_instance(request));
  LEAT_CHECK_OK(check_replay(*known, field(request, kNonceField), date, now));
  return known->principal;
}

Result<> RequestVerifier::check_date(std::string_view text, int64_t now, int64_t& seconds) const {
  const auto date = number_in(text, 10);
  if (!date || *date > INT64_MAX) return denied("the request has no date in leat-date");
  seconds = static_cast<int64_t>(*date);
  const int64_t difference = seconds > now ? seconds - now : now - seconds;
  if (difference <= options_.skew_s) return {};
  return denied(
      fmt::format("the request is dated {} by the sender's clock and {} by this worker's, and they "
                  "may differ by {} s: set both clocks (NTP)",
                  clock_text(seconds), clock_text(now), options_.skew_s));
}

Result<RequestVerifier::CachedTokenPtr> RequestVerifier::find_signer(const HttpRequest& request,
                                                                     std::string_view claims) {
  const std::string text = signed_text(request);
  const std::string_view signature = field(request, kSignatureField);
  auto matches = [&](const HmacKey& key) { return same_digest(to_hex(key.sign(text)), signature); };
  CachedTokenPtr known;
  SecretSetPtr secrets;
  {
    std::lock_guard lock(mutex_);
    secrets = tokens_.secrets;
    auto found = tokens_.by_claims.find(claims);
    if (found != tokens_.by_claims.end()) {
      tokens_.by_use.splice(tokens_.by_use.begin(), tokens_.by_use, found->second);
      known = tokens_.by_use.front();
    }
  }
  if (known != nullptr && matches(known->key)) return known;
  // Unknown token, or the same claims under another secret.
  for (const Secret& secret : secrets->secrets) {
    const Digest digest = token_key(secret, claims);
    const HmacKey key(view_of(digest));
    if (!matches(key)) continue;
    auto decoded = decode_claims(claims);
    if (!decoded) return denied(decoded.error().to_string());
    auto principal = std::make_shared<const Principal>(decoded->principal, decoded->rights,
                                                       decoded->worker(), decoded->id);
    known =
        std::make_shared<const CachedToken>(std::string(claims), key, number_of(view_of(digest)),
                                            decoded->expires, std::move(principal));
    cache(known, secrets);
    return known;
  }
  return denied(
      "the request's signature does not fit: its token was made with a secret that this worker has "
      "not got, or the request was changed on its way; compare the secret files, or request a new "
      "token");
}

void RequestVerifier::cache(CachedTokenPtr known, const SecretSetPtr& secrets) {
  std::list<CachedTokenPtr> evicted;  // freed without the lock
  std::lock_guard lock(mutex_);
  if (tokens_.secrets != secrets) return;  // derived from secrets that may have been removed
  auto drop = [&](std::list<CachedTokenPtr>::iterator entry) {
    tokens_.by_claims.erase((*entry)->claims);
    evicted.splice(evicted.end(), tokens_.by_use, entry);
  };
  auto found = tokens_.by_claims.find(known->claims);
  if (found != tokens_.by_claims.end()) drop(found->second);
  if (tokens_.by_use.size() >= options_.tokens_max) drop(std::prev(tokens_.by_use.end()));
  tokens_.by_use.push_front(std::move(known));
  tokens_.by_claims.emplace(tokens_.by_use.front()->claims, tokens_.by_use.begin());
}

Result<> RequestVerifier::check_receiver(const HttpRequest& request) const {
  if (options_.self.is_zero()) return {};
  const auto to = request.headers.find(kToField);
  if (!to) {
    if (std::ranges::find(kOpenPaths, request.path) != std::end(kOpenPaths)) return {};
    return denied(fmt::format("the request does not name its receiver in {}", kToField));
  }
  const std::string self = options_.self.to_hex();
  if (*to == self) return {};
  return error(StatusCode::kBusy,
               fmt::format("this is worker {}, and the request is for {}, which was here before: "
                           "look up its address in the cluster",
                           self, *to));
}

// The replay window ends with the process, and dates do not replace it: the sender's clock may be
// ahead.
Result<> RequestVerifier::check_instance(const HttpRequest& request) const {
  if (options_.instance.empty() || is_read_only(request)) return {};
  if (field(request, kInstanceField) == options_.instance) return {};
  return error(StatusCode::kVersionChanged,
               fmt::format("the request does not name in {} this worker's process, so an "
                           "earlier process may have accepted it: sign it again for {}",
                           kInstanceField, options_.instance));
}

Result<> RequestVerifier::check_replay(const CachedToken& known, std::string_view text,
                                       int64_t date, int64_t now) {
  const auto nonce = parse_nonce(text);
  if (!nonce) return denied("the request has no session and counter in leat-nonce");
  switch (replay_.take({known.number, nonce->session}, nonce->counter, date, now)) {
    case ReplayGuard::Verdict::kNew:
      return {};
    case ReplayGuard::Verdict::kSeen:
      return denied("this request was answered before: sign each attempt again");
    case ReplayGuard::Verdict::kOld:
      return denied(
          fmt::format("the request was signed {} requests ago or more, so that it may "
                      "have been answered before: sign it again",
                      ReplayWindow::kCounters));
    case ReplayGuard::Verdict::kEvicted:
      break;
  }
  return denied(
      fmt::format("the request, dated {}, may have been answered before: this worker has evicted "
                  "sessions that were dated as late; sign it again, and if that is rejected, too, "
                  "set the clock (NTP), which is {} here",
                  clock_text(date), clock_text(now)));
}

}  // namespace leat
