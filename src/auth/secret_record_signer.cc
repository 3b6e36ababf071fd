// SPDX-License-Identifier: Apache-2.0
#include "auth/secret_record_signer.h"

#include "base/base64.h"

namespace leat {
namespace {

// Separates these keys from token keys, which are derived from the same secrets (token.cc).
constexpr std::string_view kPurpose = "leat registry records 1";
constexpr std::string_view kKeyId = "key id";
constexpr size_t kKeyIdDigits = 16;

}  // namespace

SecretRecordSigner::SecretRecordSigner(const SecretSet& secrets) : keys_(derive(secrets)) {}

std::shared_ptr<const SecretRecordSigner::Keys> SecretRecordSigner::derive(
    const SecretSet& secrets) {
  auto keys = std::make_shared<Keys>();
  for (const Secret& secret : secrets.secrets) {
    const Digest derived = secret.sign(kPurpose);
    const HmacKey key(view_of(derived));
    const std::string id = to_hex(key.sign(kKeyId)).substr(0, kKeyIdDigits);
    if (keys->by_id.empty()) keys->first = id;
    keys->by_id.emplace(id, key);
  }
  return keys;
}

std::shared_ptr<const SecretRecordSigner::Keys> SecretRecordSigner::keys() const {
  std::lock_guard lock(mutex_);
  return keys_;
}

void SecretRecordSigner::set_secrets(const SecretSet& secrets) {
  auto keys = derive(secrets);
  std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
}

RecordSignature SecretRecordSigner::sign(std::string_view text) const {
  const auto now = keys();
  const Digest mac = now->by_id.at(now->first).sign(text);
  return {now->first, base64url(view_of(mac))};
}

RecordSigner::Verdict SecretRecordSigner::verify(std::string_view text,
                                                 const RecordSignature& signature) const {
  const auto now = keys();
  const auto found = now->by_id.find(signature.key_id);
  if (found == now->by_id.end()) return Verdict::kUnknownKey;
  const Digest mac = found->second.sign(text);
  return same_digest(signature.mac, base64url(view_of(mac))) ? Verdict::kValid : Verdict::kInvalid;
}

}  // namespace leat
