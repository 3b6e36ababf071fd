// SPDX-License-Identifier: Apache-2.0
// nlohmann::json throws; all exceptions are caught in this file.
#include "auth/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMark = "leat-token-1";
constexpr std::string_view kWorker = "worker:";
constexpr std::array kRights = {Right::kRead, Right::kWrite, Right::kAdmin, Right::kJobs};

uint8_t bit(Right right) {
  return static_cast<uint8_t>(right);
}

Error no_claims(const std::string& reason) {
  return error(StatusCode::kInvalidArgument, "these are no claims of a token: " + reason);
}

Json to_json(const Rights::Grant& grant) {
  Json may = Json::array();
  for (const Right right : kRights) {
    if ((grant.may & bit(right)) != 0) may.push_back(to_string(right));
  }
  return {{"path", grant.path}, {"may", may}};
}

// Throws.
Result<> add_grant(const Json& json, Rights& rights) {
  std::vector<Right> may;
  if (!json.at("may").is_array()) return no_claims("'may' is no list");
  for (const Json& word : json.at("may")) {
    const std::string& name = word.get_ref<const std::string&>();
    const auto* known = std::ranges::find(kRights, name, [](Right r) { return to_string(r); });
    if (known != kRights.end()) may.push_back(*known);
  }
  const std::string& path = json.at("path").get_ref<const std::string&>();
  // Only normalised paths: another spelling would not match in comparisons.
  const auto normalised = normalise_path(path);
  if (!normalised || *normalised != path) return no_claims("'" + path + "' is no path");
  rights.add(path, std::move(may));
  return {};
}

// Throws.
Result<TokenClaims> claims_from(const Json& json) {
  TokenClaims claims;
  claims.principal = json.at("principal").get<std::string>();
  if (claims.principal.empty()) return no_claims("they name nobody");
  // Checked first, because a number out of range would be converted to another one.
  const Json& expires = json.at("expires");
  if (!expires.is_number_unsigned() || expires.get<uint64_t>() > INT64_MAX) {
    return no_claims("'expires' is no number of seconds");
  }
  claims.expires = expires.get<int64_t>();
  const auto id = Id128::from_hex(json.at("id").get_ref<const std::string&>());
  if (!id) return no_claims("'id' is not 32 hexadecimal digits");
  claims.id = *id;
  const Json& rights = json.at("rights");
  if (!rights.is_array() || rights.size() > kGrantsMax) return no_claims("'rights' is no list");
  for (const Json& grant : rights) LEAT_CHECK_OK(add_grant(grant, claims.rights));
  return claims;
}

}  // namespace

std::string_view to_string(Right right) {
  switch (right) {
    case Right::kRead:
      return "read";
    case Right::kWrite:
      return "write";
    case Right::kAdmin:
      return "admin";
    case Right::kJobs:
      return "jobs";
  }
  return "";
}

void Rights::add(std::string path, std::vector<Right> may) {
  Grant grant{std::move(path), 0};
  for (const Right right : may) grant.may = static_cast<uint8_t>(grant.may | bit(right));
  grants_.push_back(std::move(grant));
}

bool Rights::may(std::string_view path, Right right) const {
  return std::ranges::any_of(grants_, [&](const Grant& grant) {
    return (grant.may & bit(right)) != 0 && is_at_or_below(path, grant.path);
  });
}

TokenClaims TokenClaims::of_worker(const WorkerId& worker) {
  TokenClaims claims{.principal = fmt::format("{}{}", kWorker, worker.to_hex()),
                     .rights = {},
                     .id = Id128::random()};
  claims.rights.add("/", {kRights.begin(), kRights.end()});
  return claims;
}

std::optional<WorkerId> TokenClaims::worker() const {
  if (!principal.starts_with(kWorker)) return std::nullopt;
  const auto found = Id128::from_hex(std::string_view(principal).substr(kWorker.size()));
  return found ? std::optional(WorkerId(*found)) : std::nullopt;
}

Result<std::string> encode_claims(const TokenClaims& claims) {
  Json rights = Json::array();
  for (const auto& grant : claims.rights.grants()) rights.push_back(to_json(grant));
  const Json json = {{"principal", claims.principal},
                     {"rights", rights},
                     {"expires", claims.expires},
                     {"id", claims.id.to_hex()}};
  std::string text;
  try {
    text = base64url(json.dump());
  } catch (const Json::exception&) {
    return no_claims("a principal or a path is not UTF-8");
  }
  // never issue what decode_claims() rejects
  LEAT_TRY(const TokenClaims again, decode_claims(text));
  static_cast<void>(again);
  return text;
}

Result<TokenClaims> decode_claims(std::string_view text) {
  if (text.size() > kClaimsTextMax) {
    return no_claims(fmt::format("they are larger than {} bytes", kClaimsTextMax));
  }
  const auto bytes = from_base64url(text);
  if (!bytes) return no_claims("not base64url");
  try {
    return claims_from(Json::parse(*bytes));
  } catch (const Json::exception& failure) {
    return no_claims(failure.what());
  }
}

std::string Token::to_line() const {
  return fmt::format("{} {} {}\n", kMark, claims, base64url(key));
}

Result<Token> Token::parse(std::string_view line) {
  const auto none = error(StatusCode::kInvalidArgument,
                          "this is no token; one is a line 'leat-token-1 CLAIMS KEY'");
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (!line.starts_with(kMark) || line.size() <= kMark.size() || line[kMark.size()] != ' ') {
    return none;
  }
  line.remove_prefix(kMark.size() + 1);
  const size_t blank = line.find(' ');
  if (blank == line.npos) return none;
  Token token{std::string(line.substr(0, blank)), {}};
  auto key = from_base64url(line.substr(blank + 1));
  if (!key || key->size() != Digest().size()) return none;
  token.key = *std::move(key);
  LEAT_TRY(const TokenClaims claims, decode_claims(token.claims));
  static_cast<void>(claims);
  return token;
}

Result<Token> Token::read(const std::string& path) {
  LEAT_TRY(const std::string line, read_secret_file(path, "the token"));
  auto token = parse(line);
  if (!token) return error(token.error().with_context("cannot use " + path));
  return token;
}

Digest token_key(const Secret& secret, std::string_view claims) {
  return secret.sign(fmt::format("{}\n{}", kMark, claims));
}

Result<Token> issue(const Secret& secret, const TokenClaims& claims) {
  LEAT_TRY(std::string text, encode_claims(claims));
  const Digest key = token_key(secret, text);
  return Token{std::move(text), std::string(view_of(key))};
}

}  // namespace leat
