// SPDX-License-Identifier: Apache-2.0
#include "auth/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstring>
#include <memory>

#include "base/check.h"

namespace leat {
namespace {

// Caches algorithm and context: their creation costs more than a digest of some hundred bytes.
Digest digest_of(std::string_view first, std::string_view second) {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  LEAT_CHECK(algorithm != nullptr && context != nullptr);
  LEAT_CHECK(EVP_DigestInit_ex2(context.get(), algorithm, nullptr) == 1);
  EVP_DigestUpdate(context.get(), first.data(), first.size());
  EVP_DigestUpdate(context.get(), second.data(), second.size());
  Digest digest;
  unsigned size = 0;
  LEAT_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1);
  LEAT_CHECK(size == digest.size());
  return digest;
}

}  // namespace

Digest sha256(std::string_view text) {
  return digest_of(text, {});
}

HmacKey::HmacKey(std::string_view key) {
  std::array<char, 64> padded{};
  const Digest hashed = key.size() > padded.size() ? sha256(key) : Digest{};
  if (key.size() > padded.size()) key = view_of(hashed);
  if (!key.empty()) std::memcpy(padded.data(), key.data(), key.size());
  for (size_t i = 0; i < padded.size(); ++i) {
    inner_[i] = static_cast<char>(padded[i] ^ 0x36);
    outer_[i] = static_cast<char>(padded[i] ^ 0x5c);
  }
}

Digest HmacKey::sign(std::string_view text) const {
  const Digest inner = digest_of({inner_.data(), inner_.size()}, text);
  return digest_of({outer_.data(), outer_.size()}, view_of(inner));
}

std::string to_hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(2 * digest.size(), '\0');
  for (size_t i = 0; i < digest.size(); ++i) {
    text[2 * i] = kDigits[digest[i] >> 4];
    text[2 * i + 1] = kDigits[digest[i] & 15];
  }
  return text;
}

std::string_view view_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

bool same_digest(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace leat
