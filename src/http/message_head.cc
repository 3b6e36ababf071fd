// SPDX-License-Identifier: Apache-2.0
#include "http/message_head.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "http/message_parser.h"

namespace leat {
namespace {

void append(std::string& head, uint64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  head.append(digits.data(), end);
}

// Replaces line breaks: in a value they would start another field, so the value's author could
// forge fields.
void append_field(std::string& head, std::string_view name, std::string_view value) {
  const size_t begin = head.size();
  head.append(name).append(": ").append(value);
  constexpr std::string_view kBreaks("\r\n\0", 3);
  for (size_t at = begin; (at = head.find_first_of(kBreaks, at)) != head.npos;) head[at] = ' ';
  head.append("\r\n");
}

bool is_framing(std::string_view name) {
  return same_field_name(name, "Content-Length") || same_field_name(name, "Transfer-Encoding") ||
         same_field_name(name, "Connection");
}

void append_fields(std::string& head, const HttpHeaders& headers) {
  for (const auto& [name, value] : headers.all()) {
    if (!is_framing(name)) append_field(head, name, value);
  }
}

void append_length(std::string& head, uint64_t length) {
  head.append("Content-Length: ");
  append(head, length);
  head.append("\r\n");
}

bool announces_empty_body(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

}  // namespace

bool has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

std::string make_head(const HttpResponse& response, const ResponseHead& how) {
  std::string head;
  head.reserve(512);
  head.append("HTTP/1.1 ");
  append(head, static_cast<uint64_t>(response.status));
  head.append(" ").append(reason_phrase(response.status)).append("\r\n");
  append_fields(head, response.headers);
  if (how.content_length) append_length(head, *how.content_length);
  if (how.chunked) head.append("Transfer-Encoding: chunked\r\nTrailer: leat-error\r\n");
  if (!how.keep_alive) head.append("Connection: close\r\n");
  head.append("\r\n");
  return head;
}

std::string make_head(const HttpRequest& request, std::string_view host, bool keep_alive) {
  std::string head;
  head.reserve(512);
  head.append(request.method).append(" ");
  head.append(request.target.empty() ? make_target(request.path, request.query) : request.target);
  head.append(" HTTP/1.1\r\n");
  if (!request.headers.find("Host")) append_field(head, "Host", host);
  append_fields(head, request.headers);
  if (!request.body.empty() || announces_empty_body(request.method)) {
    append_length(head, request.body.size());
  }
  if (!keep_alive) head.append("Connection: close\r\n");
  head.append("\r\n");
  return head;
}

}  // namespace leat
