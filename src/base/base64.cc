// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

constexpr size_t kPieceBytes = 3 << 20;  // EVP counts in int

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPieceBytes))) {
    const std::string_view piece = bytes.substr(0, kPieceBytes);
    std::string encoded((piece.size() + 2) / 3 * 4 + 1, '\0');  // EVP writes a NUL behind it
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                       reinterpret_cast<const unsigned char*>(piece.data()),
                                       static_cast<int>(piece.size()));
    text.append(encoded, 0, static_cast<size_t>(length));
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  // EVP skips blanks and takes '=' anywhere for zeros.
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.substr(0, text.size() - padding).find_first_not_of(kAlphabet) != text.npos) {
    return std::nullopt;
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  constexpr size_t kTextPieceBytes = kPieceBytes / 3 * 4;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kTextPieceBytes))) {
    const std::string_view piece = text.substr(0, kTextPieceBytes);
    std::string decoded(piece.size() / 4 * 3, '\0');
    const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                       reinterpret_cast<const unsigned char*>(piece.data()),
                                       static_cast<int>(piece.size()));
    LEAT_CHECK(length == static_cast<int>(decoded.size()));
    bytes += decoded;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string base64url(std::string_view bytes) {
  std::string text = base64(bytes);
  text.erase(std::min(text.find('='), text.size()));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  if (text.find_first_of("+/=") != text.npos) return std::nullopt;
  std::string padded(text);
  std::ranges::replace(padded, '-', '+');
  std::ranges::replace(padded, '_', '/');
  padded.append((4 - text.size() % 4) % 4, '=');
  std::optional<std::string> bytes = from_base64(padded);
  if (bytes && base64url(*bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace leat
