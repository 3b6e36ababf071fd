// SPDX-License-Identifier: Apache-2.0
#include "auth/secret_record_signer.h"

#include <gtest/gtest.h>

#include "auth/token.h"
#include "base/base64.h"

namespace leat {
namespace {

using Verdict = RecordSigner::Verdict;

// Secrets of one repeated byte each.
SecretSet set_of(std::string_view bytes) {
  SecretSet set;
  for (char byte : bytes) set.secrets.emplace_back(std::string(kSecretBytesMin, byte));
  return set;
}

TEST(SecretRecordSigner, SignatureIsOfOneText) {
  const SecretRecordSigner signer(set_of("a"));
  const RecordSignature signature = signer.sign("text");
  EXPECT_EQ(signer.verify("text", signature), Verdict::kValid);
  EXPECT_EQ(signer.verify("texT", signature), Verdict::kInvalid);
  EXPECT_EQ(signer.verify("text", {signature.key_id, ""}), Verdict::kInvalid);
  EXPECT_EQ(signer.verify("text", {signature.key_id, signature.mac + "A"}), Verdict::kInvalid);
  EXPECT_EQ(signature.key_id.size(), 16u);
  EXPECT_EQ(signature.mac.size(), 43u);
}

// Keeps records valid from one version of Leat to the next.
TEST(SecretRecordSigner, GoldenSignature) {
  const RecordSignature signature = SecretRecordSigner(set_of("a")).sign("text");
  EXPECT_EQ(signature.key_id, "174c7fbf7b866b94");
  EXPECT_EQ(signature.mac, "B0URRHUoKtC_DdWuori-W0-r6GPNmusNKzt7C01YSBs");
}

TEST(SecretRecordSigner, AllSecretsVerifyAndTheFirstSigns) {
  const SecretRecordSigner old_one(set_of("a")), both(set_of("ba")), new_one(set_of("b"));
  EXPECT_EQ(both.verify("x", old_one.sign("x")), Verdict::kValid);
  EXPECT_EQ(new_one.verify("x", both.sign("x")), Verdict::kValid);
  EXPECT_EQ(new_one.verify("x", old_one.sign("x")), Verdict::kUnknownKey);
}

TEST(SecretRecordSigner, FollowsNewSecrets) {
  SecretRecordSigner signer(set_of("a"));
  const RecordSignature before = signer.sign("x");
  signer.set_secrets(set_of("b"));
  EXPECT_EQ(signer.verify("x", before), Verdict::kUnknownKey);
  EXPECT_EQ(signer.verify("x", signer.sign("x")), Verdict::kValid);
}

// Each token holder also has a key derived from the secret.
TEST(SecretRecordSigner, TokenKeySignsNoRecord) {
  const SecretSet secrets = set_of("a");
  const SecretRecordSigner signer(secrets);
  const std::string id = signer.sign("x").key_id;
  for (const char* claims : {"", "leat registry records 1", "key id", "x"}) {
    const Digest key = token_key(secrets.signing(), claims);
    const Digest mac = HmacKey(view_of(key)).sign("x");
    EXPECT_EQ(signer.verify("x", {id, base64url(view_of(mac))}), Verdict::kInvalid) << claims;
  }
}

}  // namespace
}  // namespace leat
