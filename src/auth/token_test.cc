// SPDX-License-Identifier: Apache-2.0
#include "auth/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "model/mount_entry.h"
#include "wire/random_test.h"

namespace leat {
namespace {

const Secret kSecret(std::string(32, 's'));

Id128 some_id() {
  return *Id128::from_hex("000102030405060708090a0b0c0d0e0f");
}

TokenClaims alice() {
  TokenClaims claims{.principal = "alice", .rights = {}, .expires = 1'800'000'000, .id = some_id()};
  claims.rights.add("/data", {Right::kRead});
  return claims;
}

Result<TokenClaims> decode_json(std::string_view json) {
  return decode_claims(base64url(json));
}

TEST(Token, ClaimsAreTheDocumentedJson) {
  auto text = encode_claims(alice());
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_EQ(from_base64url(*text),
            R"({"expires":1800000000,"id":"000102030405060708090a0b0c0d0e0f","principal":"alice",)"
            R"("rights":[{"may":["read"],"path":"/data"}]})");
  EXPECT_EQ(decode_claims(*text), alice());
}

// Fixed inputs: a change of the format fails here; it would also invalidate all issued tokens.
TEST(Token, GoldenKey) {
  auto token = issue(kSecret, alice());
  ASSERT_TRUE(token);
  EXPECT_EQ(base64url(token->key), "duDjhRxUgAMYPooGOFAxRSZ_JQe4V-ErrvWsU4GTde0");
}

TEST(Token, RandomClaimsComeBack) {
  testing::Random random;
  for (int i = 0; i < 500; ++i) {
    TokenClaims claims{.principal = "p" + random.words(20),
                       .rights = {},
                       .expires = static_cast<int64_t>(random.upto(INT64_MAX)),
                       .id = Id128::random()};
    for (uint64_t left = random.upto(4); left > 0; --left) {
      auto path = normalise_path("/" + random.words(10));
      if (!path) continue;
      std::vector<Right> may;
      for (Right right : {Right::kRead, Right::kWrite, Right::kAdmin, Right::kJobs}) {
        if (random.coin()) may.push_back(right);
      }
      claims.rights.add(*path, may);
    }
    auto text = encode_claims(claims);
    ASSERT_TRUE(text) << text.error().to_string();
    ASSERT_EQ(decode_claims(*text), claims);
    auto token = issue(kSecret, claims);
    ASSERT_TRUE(token);
    auto again = Token::parse(token->to_line());
    ASSERT_TRUE(again);
    ASSERT_EQ(again->claims, token->claims);
    ASSERT_EQ(again->key, token->key);
  }
}

TEST(Token, PassesOverWhatANewerVersionSays) {
  auto claims = decode_json(R"({"principal":"a","id":"000102030405060708090a0b0c0d0e0f","expires":0,
      "colour":{"deep":[1,[2]]},"rights":[{"path":"/x","may":["read","fly"],"until":7}]})");
  ASSERT_TRUE(claims) << claims.error().to_string();
  EXPECT_TRUE(claims->rights.may("/x", Right::kRead));
  EXPECT_FALSE(claims->rights.may("/x", Right::kWrite));
}

TEST(Token, MalformedClaimsAreRejected) {
  const std::string id = R"("id":"000102030405060708090a0b0c0d0e0f")";
  for (const std::string& json : {
           std::string("[]"),
           std::string("{}"),
           std::string("nul"),
           std::string(),
           R"({"principal":"","rights":[],"expires":0,)" + id + "}",
           R"({"principal":7,"rights":[],"expires":0,)" + id + "}",
           R"({"principal":"a","rights":[],"expires":-1,)" + id + "}",
           R"({"principal":"a","rights":[],"expires":1.5,)" + id + "}",
           R"({"principal":"a","rights":[],"expires":18446744073709551615,)" + id + "}",
           R"({"principal":"a","rights":{},"expires":0,)" + id + "}",
           R"({"principal":"a","rights":[7],"expires":0,)" + id + "}",
           R"({"principal":"a","rights":[{"path":"/a/","may":[]}],"expires":0,)" + id + "}",
           R"({"principal":"a","rights":[{"path":"/a/../b","may":[]}],"expires":0,)" + id + "}",
           R"({"principal":"a","rights":[{"path":"a","may":[]}],"expires":0,)" + id + "}",
           R"({"principal":"a","rights":[{"path":"/a","may":"read"}],"expires":0,)" + id + "}",
           std::string(R"({"principal":"a","rights":[],"expires":0,"id":"00"})"),
       }) {
    EXPECT_FALSE(decode_json(json)) << json;
  }
  EXPECT_FALSE(decode_claims("!"));
  EXPECT_FALSE(decode_claims(std::string(kClaimsTextMax + 4, 'A')));
}

TEST(Token, InvalidClaimsAreNotIssued) {
  TokenClaims claims = alice();
  claims.principal = "";
  EXPECT_FALSE(issue(kSecret, claims));
  claims.principal = "\xff";
  EXPECT_FALSE(issue(kSecret, claims));
  claims = alice();
  for (size_t i = 0; i < kGrantsMax; ++i) claims.rights.add("/b", {Right::kRead});
  EXPECT_FALSE(issue(kSecret, claims));
}

TEST(Token, ARightCoversWhatIsBelow) {
  Rights rights;
  rights.add("/data/train", {Right::kRead});
  rights.add("/out", {Right::kRead, Right::kWrite});
  EXPECT_TRUE(rights.may("/data/train", Right::kRead));
  EXPECT_TRUE(rights.may("/data/train/a/b", Right::kRead));
  EXPECT_FALSE(rights.may("/data/train", Right::kWrite));
  EXPECT_FALSE(rights.may("/data/training", Right::kRead));
  EXPECT_FALSE(rights.may("/data", Right::kRead));
  EXPECT_FALSE(rights.may("/", Right::kRead));
  EXPECT_TRUE(rights.may("/out/x", Right::kWrite));
  EXPECT_FALSE(rights.may("/out/x", Right::kAdmin));
  EXPECT_FALSE(Rights().may("/", Right::kRead));
}

TEST(Token, AWorkerMayEverything) {
  const WorkerId id(Id128::random());
  const TokenClaims claims = TokenClaims::of_worker(id);
  EXPECT_EQ(claims.worker(), id);
  EXPECT_TRUE(claims.rights.may("/any/path", Right::kAdmin));
  EXPECT_EQ(alice().worker(), std::nullopt);
  TokenClaims no_worker = alice();
  no_worker.principal = "worker:me";
  EXPECT_EQ(no_worker.worker(), std::nullopt);
}

TEST(Token, AFileIsOneLineForItsOwnerOnly) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("leat-token-" + Id128::random().to_hex());
  auto token = issue(kSecret, alice());
  ASSERT_TRUE(token);
  std::ofstream(path) << token->to_line();
  chmod(path.c_str(), 0644);
  EXPECT_EQ(Token::read(path).error().code(), StatusCode::kPermissionDenied);
  chmod(path.c_str(), 0600);
  auto read = Token::read(path);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->key, token->key);
  std::filesystem::remove(path);
  for (const std::string& line :
       {std::string(), std::string("leat-token-1"), "leat-token-2 " + token->claims + " AAAA",
        "leat-token-1 " + token->claims, "leat-token-1 " + token->claims + " AAAA",
        token->to_line() + token->to_line(), " " + token->to_line()}) {
    EXPECT_FALSE(Token::parse(line)) << line;
  }
}

}  // namespace
}  // namespace leat
