// SPDX-License-Identifier: Apache-2.0
// RequestParser and ResponseParser: parse bytes to messages. Private to this module. Only
// message_parser.cc uses Beast, which calls back for each field, so that nothing is stored twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/message.h"

namespace leat {

// Why a message is rejected.
struct ParseFault {
  enum Kind : uint8_t { kHeaderTooLarge, kBodyTooLarge, kUnknownCoding, kBroken } kind;
  std::string reason;
};

class RequestParser {
 public:
  struct Limits {
    uint32_t header_bytes;
    uint64_t body_bytes;
  };

  // Fills method, target, headers and body of `request`, which outlives it.
  RequestParser(HttpRequest& request, Limits limits);
  ~RequestParser();

  // Consumes bytes from the front of `filled` and returns their number; the next call gets the
  // rest, with more.
  size_t put(std::span<const std::byte> filled);
  const std::optional<ParseFault>& fault() const { return fault_; }
  bool header_done() const;
  bool done() const;
  // For a complete message.
  bool keep_alive() const;
  bool accepts_chunked() const;  // HTTP/1.1 rather than 1.0

 private:
  class Impl;

  const std::unique_ptr<Impl> impl_;
  std::optional<ParseFault> fault_;
};

class ResponseParser {
 public:
  // Fills status and headers of `response`, which outlives the parser, and stops after them.
  // `to_head`: the request was HEAD, so there is no body.
  ResponseParser(HttpResponse& response, uint32_t header_bytes_max, bool to_head);
  ~ResponseParser();

  // Like RequestParser::put().
  size_t put(std::span<const std::byte> filled);
  const std::optional<ParseFault>& fault() const { return fault_; }
  bool header_done() const;
  bool done() const;
  // Valid once the header is done. No length if chunks or the close end the body.
  bool keep_alive() const;
  std::optional<uint64_t> content_length() const;

  // Treats further bytes as the body, which is appended to the response's.
  void take_body();
  // Marks the end of the input. Returns false if the message is incomplete.
  bool put_eof();
  // The value of the trailer field `leat-error`.
  const std::optional<std::string>& failure() const;

 private:
  class Impl;

  const std::unique_ptr<Impl> impl_;
  std::optional<ParseFault> fault_;
};

// "Not Found".
std::string_view reason_phrase(int status);

}  // namespace leat
