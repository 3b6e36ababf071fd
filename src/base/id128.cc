// SPDX-License-Identifier: Apache-2.0
#include "base/id128.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <memory>
#include <utility>

#include "base/check.h"

namespace leat {

std::string Id128::to_hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Id128> Id128::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Id128 id;
  for (size_t i = 0; i < 32; ++i) {
    char c = text[i];
    uint8_t digit;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint8_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint8_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
    id.bytes[i / 2] = static_cast<uint8_t>(id.bytes[i / 2] << 4 | digit);
  }
  return id;
}

Id128 Id128::random() {
  Id128 id;
  LEAT_CHECK(getrandom(id.bytes.data(), id.bytes.size(), 0) == 16);
  return id;
}

Id128 Id128::digest(std::span<const std::string_view> parts) {
  // Fetching the algorithm and creating a context cost more than a digest of a few dozen bytes.
  static EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  LEAT_CHECK(sha256 != nullptr && context != nullptr);
  LEAT_CHECK(EVP_DigestInit_ex2(context.get(), sha256, nullptr) == 1);
  // Gather short parts, since each update costs as much as a dozen bytes.
  std::array<uint8_t, 512> gathered;
  size_t used = 0;
  auto add = [&](const void* bytes, size_t size) {
    if (used + size > gathered.size()) {
      EVP_DigestUpdate(context.get(), gathered.data(), std::exchange(used, 0));
    }
    if (size > gathered.size()) {
      EVP_DigestUpdate(context.get(), bytes, size);
    } else if (size > 0) {
      std::memcpy(gathered.data() + used, bytes, size);
      used += size;
    }
  };
  for (std::string_view part : parts) {
    std::array<uint8_t, 8> length;
    for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(part.size() >> (8 * i));
    add(length.data(), length.size());
    add(part.data(), part.size());
  }
  EVP_DigestUpdate(context.get(), gathered.data(), used);
  std::array<uint8_t, EVP_MAX_MD_SIZE> whole;
  unsigned size = 0;
  LEAT_CHECK(EVP_DigestFinal_ex(context.get(), whole.data(), &size) == 1 && size == 32);
  Id128 id;
  std::memcpy(id.bytes.data(), whole.data(), id.bytes.size());
  return id;
}

}  // namespace leat
