// SPDX-License-Identifier: Apache-2.0
// RequestParser and ResponseParser: from bytes to messages. Private to this room; the file behind
// them is the only one that knows Beast, whose parser calls us for each field, so that nothing is
// kept twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/message.h"

namespace leat {

// Why something is no message, or none that is taken.
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

  // Takes from the front of `filled` and says how much; the rest is for the next call, with more.
  size_t put(std::span<const std::byte> filled);
  const std::optional<ParseFault>& fault() const { return fault_; }
  bool header_done() const;
  bool done() const;
  // Of a message that is done.
  bool keep_alive() const;
  bool knows_chunks() const;  // HTTP/1.1 rather than 1.0

 private:
  class Impl;

  const std::unique_ptr<Impl> impl_;
  std::optional<ParseFault> fault_;
};

class ResponseParser {
 public:
  // Fills status and headers of `response`, which outlives it, and stops after them; `to_head`: it
  // answers HEAD, so there is no body.
  ResponseParser(HttpResponse& response, uint32_t header_bytes_max, bool to_head);
  ~ResponseParser();

  // As above.
  size_t put(std::span<const std::byte> filled);
  const std::optional<ParseFault>& fault() const { return fault_; }
  bool header_done() const;
  bool done() const;
  // Once the header is done. The length is nothing where chunks or the close end the body.
  bool keep_alive() const;
  std::optional<uint64_t> content_length() const;

  // From now on what is put is the body, and is appended to the response's.
  void take_body();
  // There will be no more; false where that is too early.
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
