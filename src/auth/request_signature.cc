// SPDX-License-Identifier: Apache-2.0
#include "auth/request_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/id128.h"
#include "wire/batch.h"

namespace leat {
namespace {

using Field = std::pair<std::string_view, std::string_view>;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view name, std::string_view lower_name) {
  return std::ranges::equal(name, lower_name, {}, lower);
}

bool is_ours(std::string_view name) {
  constexpr std::string_view kOurs = "leat-";
  return name.size() > kOurs.size() && same_name(name.substr(0, kOurs.size()), kOurs);
}

// The token is covered by the key, date and nonce have lines of their own, and the signature is not
// signed.
bool has_its_place(std::string_view name) {
  return same_name(name, kTokenField) || same_name(name, kDateField) ||
         same_name(name, kNonceField) || same_name(name, kSignatureField);
}

std::string_view field(const HttpRequest& request, std::string_view name) {
  return request.headers.find(name).value_or(std::string_view());
}

void add_line(std::string& text, std::string_view line) {
  text += line;
  text += '\n';
}

// Adds the other `leat-` fields, sorted by name, as "name:value".
void add_others(std::string& text, const HttpRequest& request) {
  std::vector<Field> others;
  for (const auto& [name, value] : request.headers.all()) {
    if (is_ours(name) && !has_its_place(name)) others.emplace_back(name, value);
  }
  auto before = [](const Field& a, const Field& b) {
    return std::ranges::lexicographical_compare(a.first, b.first, {}, lower, lower);
  };
  std::ranges::sort(others, before);
  for (const auto& [name, value] : others) {
    std::ranges::transform(name, std::back_inserter(text), lower);
    text += ':';
    add_line(text, value);
  }
}

uint64_t drawn() {
  uint64_t session = 0;
  while (session == 0) session = Id128::random().hash64();
  return session;
}

}  // namespace

bool is_read_only(const HttpRequest& request) {
  if (request.method == "POST") return request.path == kBatchPath;
  return request.method == "GET" || request.method == "HEAD" || request.method == "DESCRIPTOR";
}

std::string target_of(const HttpRequest& request) {
  return request.target.empty() ? make_target(request.path, request.query) : request.target;
}

std::string signed_text(const HttpRequest& request) {
  std::string text;
  text.reserve(1024);
  add_line(text, "leat-request-1");
  add_line(text, request.method);
  add_line(text, target_of(request));
  add_line(text, field(request, "range"));
  add_line(text, field(request, "cache-control"));
  add_line(text, field(request, kDateField));
  add_line(text, field(request, kNonceField));
  add_line(text, request.body.empty() ? std::string() : to_hex(sha256(request.body)));
  add_others(text, request);
  return text;
}

int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

RequestSigner::RequestSigner(Token token, RequestSignerOptions options)
    : now_(std::move(options.now)),
      session_(fmt::format("{:016x}-", options.session != 0 ? options.session : drawn())) {
  renew(std::move(token));
}

bool RequestSigner::renew(Token token) {
  const HmacKey key(token.key);
  auto made = std::make_shared<const Credential>(std::move(token), key);
  std::lock_guard lock(mutex_);
  if (credential_ != nullptr && credential_->token == made->token) return false;
  credential_ = std::move(made);
  return true;
}

std::shared_ptr<const RequestSigner::Credential> RequestSigner::credential() const {
  std::lock_guard lock(mutex_);
  return credential_;
}

void RequestSigner::sign(HttpRequest& request) {
  const auto with = credential();
  const uint64_t count = counter_.fetch_add(1, std::memory_order_relaxed) + 1;
  request.headers.set(kTokenField, with->token.claims);
  request.headers.set(kDateField, fmt::format_int(now_()).str());
  request.headers.set(kNonceField, session_ + fmt::format_int(count).str());
  request.headers.set(kSignatureField, to_hex(with->key.sign(signed_text(request))));
}

}  // namespace leat
