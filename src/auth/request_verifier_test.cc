// SPDX-License-Identifier: Apache-2.0
// Signed requests and their verification: fixed vectors, every kind of tampering, replays.
#include "auth/request_verifier.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/base64.h"
#include "wire/random_test.h"

namespace leat {
namespace {

constexpr int64_t kNow = 1'764'000'000;  // 2025-11-24T16:00:00Z
const WorkerId kSelf(*Id128::from_hex("101112131415161718191a1b1c1d1e1f"));

Secret secret(char filling) {
  return Secret(std::string(32, filling));
}

SecretSetPtr secrets(std::string_view fillings) {
  SecretSet set;
  for (const char filling : fillings) set.secrets.push_back(secret(filling));
  return std::make_shared<const SecretSet>(std::move(set));
}

TokenClaims alice() {
  TokenClaims claims{.principal = "alice",
                     .rights = {},
                     .expires = kNow + 1000,
                     .id = *Id128::from_hex("000102030405060708090a0b0c0d0e0f")};
  claims.rights.add("/data", {Right::kRead});
  return claims;
}

Token token_of(char filling, const TokenClaims& claims = alice()) {
  return *issue(secret(filling), claims);
}

HttpRequest read_request() {
  HttpRequest request;
  request.path = "/peer/v1/bytes";
  request.query = {{"mount", "/data"}, {"key", "train/a b"}, {"size", "100"}};
  request.headers.set("Range", "bytes=0-9");
  request.headers.set(kToField, kSelf.to_hex());
  return request;
}

class RequestVerifierTest : public ::testing::Test {
 protected:
  RequestSigner signer(Token token = token_of('a')) {
    return RequestSigner(std::move(token), {.now = [this] { return sender_now_; }, .session = 7});
  }
  HttpRequest signed_read() {
    HttpRequest request = read_request();
    signer_.sign(request);
    return request;
  }
  std::string refusal(const HttpRequest& request) {
    auto verified = verifier_.verify(request);
    if (verified) return "it was taken";
    EXPECT_EQ(verified.error().code(), StatusCode::kPermissionDenied);
    return verified.error().to_string();
  }

  int64_t now_ = kNow, sender_now_ = kNow;
  RequestSigner signer_{token_of('a'), {.now = [this] { return sender_now_; }, .session = 7}};
  RequestVerifier verifier_{secrets("ab"), {.self = kSelf, .now = [this] { return now_; }}};
};

#define EXPECT_SAYS(request, words) \
  EXPECT_NE(refusal(request).find(words), std::string::npos) << refusal(request)

TEST_F(RequestVerifierTest, MutatingRequestIsForOneProcess) {
  RequestVerifier before(secrets("a"),
                         {.self = kSelf, .instance = "1", .now = [] { return kNow; }});
  RequestVerifier after(secrets("a"), {.self = kSelf, .instance = "2", .now = [] { return kNow; }});
  HttpRequest change = read_request();
  change.method = "POST";
  signer_.sign(change);
  EXPECT_FALSE(before.verify(change)) << "it names no process";
  change.headers.set(kInstanceField, "1");
  EXPECT_FALSE(before.verify(change)) << "it is not signed";
  sender_now_ += 200;  // a clock that is ahead
  signer_.sign(change);
  EXPECT_TRUE(before.verify(change));
  auto again = after.verify(change);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), StatusCode::kVersionChanged);
  EXPECT_TRUE(after.verify(signed_read())) << "who only asks need not say so";
}

// These values stand in docs/formats/peer-protocol.md.
TEST_F(RequestVerifierTest, GoldenSignature) {
  const HttpRequest request = signed_read();
  EXPECT_EQ(signed_text(request),
            "leat-request-1\n"
            "GET\n"
            "/peer/v1/bytes?key=train/a%20b&mount=/data&size=100\n"
            "bytes=0-9\n"
            "\n"
            "1764000000\n"
            "0000000000000007-1\n"
            "\n"
            "leat-to:101112131415161718191a1b1c1d1e1f\n");
  EXPECT_EQ(request.headers.find(kSignatureField),
            "5f4d686563ffcffdd6100297f4194f5039ced8a3438d3e62838841d56eec1a61");

  HttpRequest post;
  post.method = "POST";
  post.path = "/peer/v1/changes";
  post.body = "{}";
  post.headers.set("Leat-Timeout-Ms", "250");
  post.headers.set("leat-failover-for", "x");
  signer_.sign(post);
  EXPECT_EQ(signed_text(post),
            "leat-request-1\n"
            "POST\n"
            "/peer/v1/changes\n"
            "\n"
            "\n"
            "1764000000\n"
            "0000000000000007-2\n"
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\n"
            "leat-failover-for:x\n"
            "leat-timeout-ms:250\n");
  EXPECT_EQ(post.headers.find(kSignatureField),
            "61ec7c1c945277342750b7bc28443da51a2f71904f98ac44b3ed49f1de075c7f");
}

TEST_F(RequestVerifierTest, ReturnsPrincipalAndRights) {
  auto principal = verifier_.verify(signed_read());
  ASSERT_TRUE(principal) << principal.error().to_string();
  EXPECT_EQ((*principal)->name, "alice");
  EXPECT_TRUE((*principal)->rights.may("/data/x", Right::kRead));
  EXPECT_FALSE((*principal)->rights.may("/other", Right::kRead));
  EXPECT_EQ((*principal)->worker, std::nullopt);

  const WorkerId other(Id128::random());
  RequestSigner worker(token_of('b', TokenClaims::of_worker(other)), {.now = [] { return kNow; }});
  HttpRequest request = read_request();
  worker.sign(request);
  principal = verifier_.verify(request);
  ASSERT_TRUE(principal) << principal.error().to_string();
  EXPECT_EQ((*principal)->worker, other);
}

TEST_F(RequestVerifierTest, NothingThatCountsCanBeChanged) {
  using Change = std::function<void(HttpRequest&)>;
  auto field = [](const char* name, std::string value) -> Change {
    return [=](HttpRequest& request) { request.headers.set(name, value); };
  };
  TokenClaims more = alice();
  more.rights.add("/", {Right::kRead});
  const std::vector<Change> changes = {
      [](HttpRequest& request) { request.method = "POST"; },
      [](HttpRequest& request) { request.path = "/peer/v1/stat"; },
      [](HttpRequest& request) { request.query["key"] = "train/b"; },
      [](HttpRequest& request) { request.query["more"] = ""; },
      [](HttpRequest& request) { request.query.erase("size"); },
      [](HttpRequest& request) { request.body = "x"; },
      field("range", "bytes=0-99"),
      field("Cache-Control", "only-if-cached"),
      field(kDateField, std::to_string(kNow + 1)),
      field(kNonceField, "0000000000000007-2"),
      field(kNonceField, "0000000000000008-1"),
      field(kTokenField, *encode_claims(more)),
      field(kToField, Id128::random().to_hex()),
      field("leat-failover-for", Id128::random().to_hex()),
      field("Leat-Later", "what a newer version says"),
      field(kSignatureField, std::string(64, '0')),
      field(kSignatureField, "0"),
      field(kSignatureField, ""),
  };
  const HttpRequest request = signed_read();
  for (const bool known : {false, true}) {  // with a derived and with a cached key
    for (size_t i = 0; i < changes.size(); ++i) {
      HttpRequest changed = request;
      changes[i](changed);
      EXPECT_SAYS(changed, "signature does not fit") << "change " << i;
    }
    EXPECT_EQ(verifier_.verify(known ? signed_read() : request).has_value(), true);
  }
  HttpRequest seen = signed_read();
  seen.headers.set("User-Agent", "what does not count");
  EXPECT_TRUE(verifier_.verify(seen));
}

TEST_F(RequestVerifierTest, TakesEachSignatureOnce) {
  const HttpRequest first = signed_read(), second = signed_read();
  EXPECT_TRUE(verifier_.verify(second));
  EXPECT_TRUE(verifier_.verify(first));
  EXPECT_SAYS(first, "answered before");
  EXPECT_SAYS(second, "answered before");
  HttpRequest again = first;
  signer_.sign(again);
  EXPECT_TRUE(verifier_.verify(again));
}

TEST_F(RequestVerifierTest, AWindowOfRequestsMayComeInAnyOrder) {
  testing::Random random;
  const HttpRequest too_old = signed_read();
  std::vector<HttpRequest> requests;
  for (uint64_t i = 0; i < ReplayWindow::kCounters; ++i) requests.push_back(signed_read());
  for (size_t i = requests.size() - 1; i > 0; --i) {
    std::swap(requests[i], requests[random.bits() % (i + 1)]);
  }
  for (const HttpRequest& request : requests) ASSERT_TRUE(verifier_.verify(request));
  EXPECT_SAYS(too_old, "4096 requests ago");
}

TEST_F(RequestVerifierTest, ClocksMayDifferAndNotTooMuch) {
  for (const int64_t difference : {-300, 300}) {
    sender_now_ = kNow + difference;
    EXPECT_TRUE(verifier_.verify(signed_read()));
  }
  for (const int64_t difference : {-301, 301}) {
    sender_now_ = kNow + difference;
    const HttpRequest request = signed_read();
    EXPECT_SAYS(request, "16:00:00Z by this worker's");
    EXPECT_SAYS(request,
                difference < 0 ? "15:54:59Z by the sender's" : "16:05:01Z by the sender's");
  }
  HttpRequest request = signed_read();
  for (const char* date :
       {"", "x", "-1", "18446744073709551615", "99999999999999999999999", "1 "}) {
    request.headers.set(kDateField, date);
    EXPECT_FALSE(verifier_.verify(request)) << date;
  }
  request.headers.set(kDateField, "9223372036854775807");
  EXPECT_SAYS(request, "set both clocks");
}

TEST_F(RequestVerifierTest, LateReplayIsRejected) {
  const HttpRequest request = signed_read();
  EXPECT_TRUE(verifier_.verify(request));
  for (const int64_t later : {0, 299, 300, 301, 600, 601, 3600}) {
    now_ = kNow + later;
    EXPECT_FALSE(verifier_.verify(request)) << later;
    sender_now_ = now_;
    HttpRequest other = read_request();
    RequestSigner(token_of('a'), {.now = [this] { return now_; }}).sign(other);
    EXPECT_EQ(verifier_.verify(other).has_value(), later < 1000) << later;
  }
}

TEST_F(RequestVerifierTest, ExpiredOrUnknownTokenIsRejected) {
  now_ = sender_now_ = kNow + 999;
  EXPECT_TRUE(verifier_.verify(signed_read()));
  now_ = sender_now_ = kNow + 1000;
  EXPECT_SAYS(signed_read(), "token of 'alice' (000102030405060708090a0b0c0d0e0f) expired at");
  HttpRequest request = read_request();
  signer(token_of('c')).sign(request);
  EXPECT_SAYS(request, "a secret that this worker has not got");
  EXPECT_SAYS(read_request(), "not signed");
  // A valid key for malformed claims.
  const std::string rubbish = base64url("{}");
  signer({rubbish, std::string(view_of(token_key(secret('a'), rubbish)))}).sign(request);
  EXPECT_SAYS(request, "no claims");
  request.headers.set(kTokenField, std::string(kClaimsTextMax + 1, 'A'));
  EXPECT_SAYS(request, "too large");
}

TEST_F(RequestVerifierTest, NeedsANonce) {
  // Signed with the token's key, so that only the nonce is wrong.
  const Token token = token_of('a');
  for (const char* nonce : {"", "7-1", "0000000000000007", "0000000000000007-",
                            "000000000000000g-1", "0000000000000007-x", "0000000000000007-1 ",
                            "0000000000000007--1", "0000000000000007-18446744073709551616"}) {
    HttpRequest request = signed_read();
    request.headers.set(kNonceField, nonce);
    request.headers.set(kSignatureField, to_hex(HmacKey(token.key).sign(signed_text(request))));
    EXPECT_SAYS(request, "no session and counter") << nonce;
  }
}

TEST_F(RequestVerifierTest, IsForOneWorker) {
  HttpRequest request = signed_read();
  request.headers.set(kToField, Id128::random().to_hex());
  signer_.sign(request);
  auto verified = verifier_.verify(request);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code(), StatusCode::kBusy);

  HttpRequest to_nobody;
  to_nobody.path = "/peer/v1/bytes";
  signer_.sign(to_nobody);
  EXPECT_SAYS(to_nobody, "does not name its receiver");
  for (const char* path : {"/peer/v1/ping", "/peer/v1/cluster"}) {
    to_nobody.path = path;
    signer_.sign(to_nobody);
    EXPECT_TRUE(verifier_.verify(to_nobody));
  }
}

TEST_F(RequestVerifierTest, SecretsAreExchangedOneAfterAnother) {
  EXPECT_TRUE(verifier_.verify(signed_read()));
  verifier_.set_secrets(secrets("cab"));
  EXPECT_TRUE(verifier_.verify(signed_read()));
  signer_.renew(token_of('c'));  // the same claims under another secret
  EXPECT_TRUE(verifier_.verify(signed_read()));
  EXPECT_TRUE(verifier_.verify(signed_read()));
  verifier_.set_secrets(secrets("cb"));
  EXPECT_TRUE(verifier_.verify(signed_read()));
  signer_.renew(token_of('a'));
  EXPECT_SAYS(signed_read(), "a secret that this worker has not got");
}

TEST_F(RequestVerifierTest, EvictedTokensAreVerifiedAgain) {
  RequestVerifier verifier(secrets("a"),
                           {.self = kSelf, .tokens_max = 2, .now = [] { return kNow; }});
  std::vector<std::unique_ptr<RequestSigner>> signers;
  for (int i = 0; i < 5; ++i) {
    TokenClaims claims = alice();
    claims.id = Id128::random();
    signers.push_back(std::make_unique<RequestSigner>(token_of('a', claims),
                                                      RequestSignerOptions{[] { return kNow; }}));
  }
  for (int round = 0; round < 3; ++round) {
    for (auto& one : signers) {
      HttpRequest request = read_request();
      one->sign(request);
      EXPECT_TRUE(verifier.verify(request));
      EXPECT_FALSE(verifier.verify(request));
    }
  }
}

TEST_F(RequestVerifierTest, RandomRequestsVerifyAfterTransfer) {
  testing::Random random;
  constexpr std::string_view kNever{"\0\r\n", 3};
  for (int i = 0; i < 300; ++i) {
    HttpRequest request;
    request.method = random.coin() ? "GET" : "POST";
    request.path = "/" + random.bytes(30, kNever);
    for (uint64_t left = random.upto(5); left > 0; --left) {
      request.query[random.bytes(8, kNever)] = random.bytes(60, kNever);
    }
    request.body = random.bytes(200);
    request.headers.set(kToField, kSelf.to_hex());
    for (uint64_t left = random.upto(4); left > 0; --left) {
      request.headers.set("leat-" + std::to_string(random.upto(9)), random.bytes(9, kNever));
    }
    signer_.sign(request);
    HttpRequest there = request;
    there.query.clear();
    ASSERT_TRUE(parse_target(target_of(request), there));
    auto principal = verifier_.verify(there);
    ASSERT_TRUE(principal) << principal.error().to_string();
  }
}

TEST_F(RequestVerifierTest, ConcurrentSignaturesAreValid) {
  std::atomic<int> believed = 0;
  constexpr int kThreads = 4, kEach = 500;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        if (t == 0 && i % 50 == 0) verifier_.set_secrets(secrets(i % 100 == 0 ? "ab" : "ba"));
        if (t == 1 && i % 50 == 0) signer_.renew(token_of(i % 100 == 0 ? 'a' : 'b'));
        if (verifier_.verify(signed_read())) believed.fetch_add(1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(believed.load(), kThreads * kEach);
}

}  // namespace
}  // namespace leat
