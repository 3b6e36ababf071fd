// SPDX-License-Identifier: Apache-2.0
// RequestParser and ResponseParser: from bytes to messages. Private to this room, and the only
// place that knows Beast, whose parser calls us for each field; nothing is kept twice.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/verb.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/units.h"
#include "http/message.h"

namespace leat {

// What both have in common. put() takes from the front of `filled` and says how much.
template <bool kIsRequest>
class MessageParser : public boost::beast::http::basic_parser<kIsRequest> {
 protected:
  using ErrorCode = boost::beast::error_code;
  using Text = boost::beast::string_view;
  using Length = boost::optional<std::uint64_t>;

  MessageParser(HttpHeaders& headers, std::string& body) : headers_(headers), body_(body) {}

  void on_field_impl(boost::beast::http::field, Text name, Text value, ErrorCode&) override {
    if (in_trailer_) {
      trailer(std::string_view(name), std::string_view(value));
    } else {
      headers_.set(std::string(name), std::string(value));
    }
  }
  void on_header_impl(ErrorCode&) override { in_trailer_ = true; }
  void on_body_init_impl(const Length& length, ErrorCode&) override {
    if (length) body_.reserve(static_cast<size_t>(std::min<uint64_t>(*length, kReserveMax)));
  }
  std::size_t on_body_impl(Text body, ErrorCode&) override {
    body_.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, Text, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text body, ErrorCode&) override {
    body_.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(ErrorCode&) override {}
  virtual void trailer(std::string_view, std::string_view) {}

 private:
  // What is promised is not yet there.
  static constexpr uint64_t kReserveMax = 1 * kMiB;

  HttpHeaders& headers_;
  std::string& body_;
  bool in_trailer_ = false;
};

class RequestParser : public MessageParser<true> {
 public:
  // Fills method, target, headers and body of `request`, which outlives it.
  explicit RequestParser(HttpRequest& request)
      : MessageParser(request.headers, request.body), request_(request) {
    eager(true);
  }

  // HTTP/1.1 rather than 1.0.
  bool knows_chunks() const { return version_ >= 11; }

 private:
  void on_request_impl(boost::beast::http::verb, Text method, Text target, int version,
                       ErrorCode&) override {
    request_.method.assign(method.data(), method.size());
    request_.target.assign(target.data(), target.size());
    request_.headers.reserve(8);
    version_ = version;
  }
  void on_response_impl(int, Text, int, ErrorCode&) override {}

  HttpRequest& request_;
  int version_ = 11;
};

class ResponseParser : public MessageParser<false> {
 public:
  // Fills status and headers of `response`; what it parses of a body is appended to its `body`.
  // Stops after the header until eager() is set.
  explicit ResponseParser(HttpResponse& response)
      : MessageParser(response.headers, response.body), response_(response) {
    body_limit(boost::none);
  }

  // The value of the trailer field `leat-error`.
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  void on_request_impl(boost::beast::http::verb, Text, Text, int, ErrorCode&) override {}
  void on_response_impl(int status, Text, int, ErrorCode&) override {
    response_.status = status;
    response_.headers.reserve(8);
  }
  void trailer(std::string_view name, std::string_view value) override;

  HttpResponse& response_;
  std::optional<std::string> failure_;
};

// How put() is called, by both sides: the rest of `filled` is for the next call.
template <class Parser>
size_t parse(Parser& parser, std::span<const std::byte> filled, boost::beast::error_code& failed) {
  const size_t used = parser.put(boost::asio::const_buffer(filled.data(), filled.size()), failed);
  if (failed == boost::beast::http::error::need_more) failed = {};
  return used;
}

// "Not Found".
std::string_view reason_phrase(int status);

}  // namespace leat
