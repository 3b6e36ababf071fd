// SPDX-License-Identifier: Apache-2.0
// Requests to S3 as they were sent: the requester, and whether the signature is right.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace leat::testing {

inline std::string refusal(std::string_view status, std::string_view code,
                           std::string_view text = "") {
  std::string body = fmt::format(
      "<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>no</Message>{}</Error>", code, text);
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

// Returns the value of a header, or nothing.
inline std::optional<std::string> header(const std::string& request, const std::string& name) {
  size_t at = request.find("\r\n" + name + ": ");
  if (at == std::string::npos) return std::nullopt;
  at += name.size() + 4;
  return request.substr(at, request.find("\r\n", at) - at);
}

inline std::string key_id(const std::string& request) {
  std::string value = header(request, "authorization").value_or("");
  size_t at = value.find("Credential=");
  if (at == std::string::npos) return "";
  return value.substr(at + 11, value.find('/', at) - at - 11);
}

inline std::string sha256_hex(std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", hash[i]);
  return hex;
}

inline std::string hmac(std::string_view key, std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash, &size);
  return {reinterpret_cast<char*>(hash), size};
}

inline std::string decoded(std::string_view path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      text += path[i];
      continue;
    }
    text += static_cast<char>(std::stoi(std::string(path.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return text;
}

inline std::string encoded(std::string_view path) {
  std::string text;
  for (char c : path) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 std::string_view("-._~/").contains(c);
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

// Trims outer spaces and merges inner ones.
inline std::string folded(std::string_view value) {
  std::string text;
  for (char c : value) {
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// Signature Version 4 as a server checks it, from the received request.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
inline std::string expected_signature(const std::string& request, const std::string& secret) {
  const std::string authorization = header(request, "authorization").value_or("");
  auto field = [&](const std::string& name) {
    size_t at = authorization.find(name + "=") + name.size() + 1;
    return authorization.substr(at, authorization.find(',', at) - at);
  };
  const std::string method = request.substr(0, request.find(' '));
  const size_t target_at = method.size() + 1;
  std::string target = request.substr(target_at, request.find(" HTTP/1.1") - target_at);
  const size_t question = target.find('?');
  std::string query;
  if (question != std::string::npos) {
    std::istringstream given(target.substr(question + 1));
    std::vector<std::string> pairs;
    for (std::string pair; std::getline(given, pair, '&');) {
      for (size_t at; (at = pair.find('/')) != std::string::npos;) pair.replace(at, 1, "%2F");
      pairs.push_back(pair);
    }
    std::ranges::sort(pairs);
    query = fmt::format("{}", fmt::join(pairs, "&"));
  }
  const std::string names = field("SignedHeaders");
  std::string canonical =
      fmt::format("{}\n{}\n{}\n", method, encoded(decoded(target.substr(0, question))), query);
  for (size_t at = 0; at <= names.size();) {
    size_t end = std::min(names.find(';', at), names.size());
    std::string name = names.substr(at, end - at);
    canonical += fmt::format("{}:{}\n", name, folded(header(request, name).value_or("missing")));
    at = end + 1;
  }
  canonical += fmt::format("\n{}\n{}", names, header(request, "x-amz-content-sha256").value_or(""));
  const std::string credential = field("Credential");
  const std::string scope = credential.substr(credential.find('/') + 1);
  std::string key = "AWS4" + secret;
  for (size_t at = 0; at <= scope.size();) {
    size_t end = std::min(scope.find('/', at), scope.size());
    key = hmac(key, scope.substr(at, end - at));
    at = end + 1;
  }
  std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", header(request, "x-amz-date").value_or(""), scope,
                  sha256_hex(canonical));
  std::string hex;
  for (char c : hmac(key, to_sign)) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

inline std::string given_signature(const std::string& request) {
  std::string value = header(request, "authorization").value_or("");
  size_t at = value.find("Signature=");
  return at == std::string::npos ? "none" : value.substr(at + 10);
}

}  // namespace leat::testing
