// SPDX-License-Identifier: Apache-2.0
// Translates the error texts of stores to causes.
#include "doctor/store_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace leat {
namespace {

// Signs in an error text, and their meaning. The first match counts.
struct Cause {
  std::string_view name;
  std::vector<std::string_view> signs;
  const char* meaning;
  const char* action;
};

constexpr const char* kCannotRead = "nothing of it can be mounted or read";

const std::vector<Cause> kCauses = {
    Cause{
        "store.clock",
        {"RequestTimeTooSkewed", "RequestExpired", "request time and the current time",
         "Request date header too old", "not within the allowed time", "the clock of this machine"},
        "this host's clock and the store's differ by more than the store allows",
        "timedatectl set-ntp true, or chronyc makestep; then try again"},
    Cause{"store.region",
          {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraint",
           "301 Moved Permanently", "the store answered 301", "the store answered 307",
           "the bucket is in another region"},
          "the bucket is in another region than the requested one",
          "-o region=REGION, or AWS_REGION; the answer names the right one"},
    Cause{
        "store.credentials",
        {"ExpiredToken", "TokenRefreshRequired", "token is expired", "token has expired",
         "The provided token has expired"},
        "the credentials were right once and have expired",
        "get new ones; kept in a file (~/.aws/credentials, -o credentials=FILE) or by a role they "
        "are renewed without a new mount"},
    Cause{
        "store.credentials",
        {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "UnrecognizedClient",
         "InvalidAuthenticationInfo", "AuthenticationFailed", "invalid_grant",
         "the store answered 401", "no credentials", "credential is empty",
         "failed to load credential", "loading credential"},
        "the store does not know these credentials, or they are not complete",
        "look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, at AWS_PROFILE, or what the store's "
        "page in docs/stores.md names"},
    Cause{"store.throttling",
          {"SlowDown", "TooManyRequests", "the store answered 429", "RequestLimitExceeded",
           "ServerBusy", "Reduce your request rate"},
          "the store wants fewer requests than it gets, from this host or all of its users",
          "-o requests_per_second=N or bandwidth=SIZE, a smaller fetch.requests_per_store_max; ask "
          "the store's "
          "operator for more"},
    Cause{"store.endpoint",
          {"which is no listing", "<html", "wrong version number", "InvalidContentType",
           "received corrupt message"},
          "what answers there is no server of this kind, or speaks TLS where it should not",
          "-o endpoint=URL with the right scheme and port"},
    Cause{"store.bucket",
          {"NoSuchBucket", "ContainerNotFound", "bucket does not exist",
           "The specified bucket does not exist"},
          "there is no such bucket at this endpoint",
          "look at its name, at -o endpoint=, and at -o addressing=path (host/bucket) or virtual "
          "(bucket.host)"},
    Cause{"store.archive",
          {"InvalidObjectState", "BlobArchived"},
          "the object is archived and cannot be read before it is restored",
          "aws s3api restore-object, or the store's own tool; then try again"},
    Cause{"store.proxy",
          {"through the proxy "},
          "the proxy of this host's environment does not answer",
          "the address in http_proxy or https_proxy, or the store's host in no_proxy"},
    Cause{"store.permission",
          {"AccessDenied", "Forbidden", "the store answered 403", "AuthorizationPermissionMismatch",
           "AccessControlException", "Permission denied"},
          "the store knows these credentials and does not let them do that",
          "for reading a mount needs to list the prefix and to get its objects (S3: s3:ListBucket, "
          "s3:GetObject)"},
};

const Cause& cause_named(std::string_view name) {
  return *std::ranges::find(kCauses, name, &Cause::name);
}

bool has_sign_of(const std::string& text, const Cause& cause) {
  return std::ranges::any_of(cause.signs,
                             [&](std::string_view sign) { return text.contains(sign); });
}

// An unresolvable "bucket.host" usually means a server that needs "host/bucket".
bool wants_other_addressing(const StoreFacts& facts, const std::string& text) {
  if (!facts.s3) return false;
  const std::string bucket = facts.source.substr(facts.source.find("://") + 3);
  const std::string host = bucket.substr(0, bucket.find('/')) + ".";
  if (text.contains("invalid IPv4 address")) return true;  // "my-bucket.127.0.0.1"
  const bool no_name = text.contains("dns error") || text.contains("failed to lookup address");
  return no_name && text.contains(host);
}

bool unreachable(const std::string& text) {
  for (const char* sign :
       {"Connection refused", "dns error", "failed to lookup address", "timed out",
        "ran out of time", "no bytes from the store", "Connection reset", "Network is unreachable",
        "No route to host", "certificate", "tcp connect error", "error sending request"}) {
    if (text.contains(sign)) return true;
  }
  return false;
}

Finding trouble_finding(const StoreFacts& facts) {
  const std::string message = facts.trouble->to_string();
  Finding finding{.level = Level::kProblem,
                  .name = "store.access",
                  .subject = facts.source,
                  .what = message,
                  .cost = kCannotRead,
                  .action = "what the answer says; docs/troubleshooting.md"};
  auto explain = [&](std::string_view name, std::string_view meaning, const char* action) {
    finding.name = name;
    finding.what = fmt::format("{}: {}", meaning, message);
    finding.action = action;
  };
  if (wants_other_addressing(facts, message)) {
    explain("store.addressing", "the bucket's own host name is not known to any name server",
            "-o addressing=path, for servers that want host/bucket");
    return finding;
  }
  auto cause =
      std::ranges::find_if(kCauses, [&](const Cause& one) { return has_sign_of(message, one); });
  if (cause != kCauses.end()) {
    explain(cause->name, cause->meaning, cause->action);
  } else if (facts.trouble->code() == StatusCode::kThrottled) {
    explain("store.throttling", cause_named("store.throttling").meaning,
            cause_named("store.throttling").action);
  } else if (facts.trouble->code() == StatusCode::kPermissionDenied) {
    explain("store.permission", cause_named("store.permission").meaning,
            cause_named("store.permission").action);
  } else if (facts.trouble->code() == StatusCode::kInvalidArgument) {
    explain("store.options", "its URL or options", "what the message says; docs/stores.md");
  } else if (facts.trouble->code() == StatusCode::kNotFound) {
    explain("store.bucket", "there is no such bucket or path",
            "look at its name and at -o endpoint=");
  } else if (unreachable(message)) {
    explain("store.reachable", "it does not answer",
            "curl the endpoint from this host: is the address right, the server up, a firewall or "
            "proxy between?");
  }
  if (facts.doing == "reading") finding.cost = "names can be seen, but nothing can be read";
  return finding;
}

Finding speed_finding(const StoreFacts& facts) {
  Finding finding{.name = "store.speed", .subject = facts.source};
  const double seconds = std::max(facts.read_time.count(), 1e-6);
  const double rate = static_cast<double>(facts.read_bytes) / seconds;
  const double latency_ms = facts.latency.count() * 1e3;
  finding.what = fmt::format(
      "a small request takes {:.1f} ms; one request reads {}/s ({} in {:.0f} "
      "ms)",
      latency_ms, format_bytes(static_cast<uint64_t>(rate)), format_bytes(facts.read_bytes),
      seconds * 1e3);
  // Beyond this the number of concurrent requests, not bandwidth, limits the first epoch of small
  // files.
  constexpr double kFarAwayMs = 200;
  if (latency_ms <= kFarAwayMs) return finding;
  finding.level = Level::kNote;
  finding.cost = fmt::format("with 32 requests at once at most {:.0f} small files a second",
                             32e3 / latency_ms);
  finding.action =
      "a store nearer by, a larger fetch.requests_per_store_max, and 'leat load' before training";
  return finding;
}

}  // namespace

Findings store_findings(const StoreFacts& facts) {
  if (facts.trouble) return {trouble_finding(facts)};
  Findings findings = {
      {.name = "store.access", .subject = facts.source, .what = "lists and reads"}};
  if (facts.empty) {
    findings.front().level = Level::kNote;
    findings.front().what = "there is nothing at this place, so nothing was read";
    findings.front().cost = "a mount of it is an empty folder";
    findings.front().action = "look at the prefix: 'leat ls' of the bucket shows what there is";
    return findings;
  }
  findings.push_back(speed_finding(facts));
  return findings;
}

}  // namespace leat
