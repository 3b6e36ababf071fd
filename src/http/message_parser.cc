// SPDX-License-Identifier: Apache-2.0
#include "http/message_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>

#include "base/units.h"

namespace leat {
namespace {

namespace bhttp = boost::beast::http;
using ErrorCode = boost::beast::error_code;
using Text = boost::beast::string_view;

// Maximum memory reserved for an announced body.
constexpr uint64_t kReserveMax = 1 * kMiB;
constexpr size_t kUsualFields = 8;

// The only supported transfer coding, and only alone: RFC 9112, 6.1 and 6.3. Beast treats a message
// of another coding as one without a body, and so its body as the next message.
bool is_chunked(Text value) {
  return same_field_name({value.data(), value.size()}, "chunked");
}

// Common code of requests and responses.
template <bool kIsRequest>
class Fields : public bhttp::basic_parser<kIsRequest> {
 public:
  Fields(HttpHeaders& headers, std::string& body) : headers_(headers), body_(body) {}

 protected:
  void on_field_impl(bhttp::field field, Text name, Text value, ErrorCode& failed) override {
    if (field == bhttp::field::transfer_encoding && !is_chunked(value)) {
      unknown_coding_.assign(value.data(), value.size());
      failed = bhttp::error::bad_transfer_encoding;
      return;
    }
    if (in_trailer_) {
      on_trailer(name, value);
    } else {
      headers_.set(std::string(name), std::string(value));
    }
  }
  void on_header_impl(ErrorCode&) override { in_trailer_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode&) override {
    if (length) body_.reserve(static_cast<size_t>(std::min<uint64_t>(*length, kReserveMax)));
  }
  std::size_t on_body_impl(Text body, ErrorCode&) override { return append(body); }
  void on_chunk_header_impl(std::uint64_t, Text, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text body, ErrorCode&) override {
    return append(body);
  }
  void on_finish_impl(ErrorCode&) override {}
  void on_request_impl(bhttp::verb, Text, Text, int, ErrorCode&) override {}
  void on_response_impl(int, Text, int, ErrorCode&) override {}
  virtual void on_trailer(Text, Text) {}

  HttpHeaders& headers_;

 public:
  // The unsupported transfer coding; empty if there is none.
  const std::string& unknown_coding() const { return unknown_coding_; }

 private:
  std::size_t append(Text body) {
    body_.append(body.data(), body.size());
    return body.size();
  }

  std::string& body_;
  std::string unknown_coding_;
  bool in_trailer_ = false;
};

template <class Parser>
size_t put_into(Parser& parser, std::span<const std::byte> filled,
                std::optional<ParseFault>& fault) {
  ErrorCode failed;
  const size_t used = parser.put(boost::asio::const_buffer(filled.data(), filled.size()), failed);
  if (!failed || failed == bhttp::error::need_more) return used;
  ParseFault::Kind kind = ParseFault::kBroken;
  if (failed == bhttp::error::header_limit) kind = ParseFault::kHeaderTooLarge;
  if (failed == bhttp::error::body_limit) kind = ParseFault::kBodyTooLarge;
  std::string reason = failed.message();
  if (const std::string& coding = parser.unknown_coding(); !coding.empty()) {
    kind = ParseFault::kUnknownCoding;
    reason = fmt::format(
        "the transfer coding '{}' is not supported; send a Content-Length or chunks", coding);
  }
  fault = ParseFault{kind, std::move(reason)};
  return used;
}

}  // namespace

class RequestParser::Impl : public Fields<true> {
 public:
  explicit Impl(HttpRequest& request) : Fields(request.headers, request.body), request_(request) {
    eager(true);
  }

  int version = 11;

 private:
  // HTTP/1.1 introduced chunks, so a proxy in between may have framed the message differently.
  void on_field_impl(bhttp::field field, Text name, Text value, ErrorCode& failed) override {
    if (field == bhttp::field::transfer_encoding && version < 11) {
      failed = bhttp::error::bad_transfer_encoding;
    } else {
      Fields::on_field_impl(field, name, value, failed);
    }
  }
  void on_request_impl(bhttp::verb, Text method, Text target, int said, ErrorCode&) override {
    request_.method.assign(method.data(), method.size());
    request_.target.assign(target.data(), target.size());
    headers_.reserve(kUsualFields);
    version = said;
  }

  HttpRequest& request_;
};

RequestParser::RequestParser(HttpRequest& request, Limits limits)
    : impl_(std::make_unique<Impl>(request)) {
  impl_->header_limit(limits.header_bytes);
  impl_->body_limit(limits.body_bytes);
}

RequestParser::~RequestParser() = default;

size_t RequestParser::put(std::span<const std::byte> filled) {
  return put_into(*impl_, filled, fault_);
}

bool RequestParser::header_done() const {
  return impl_->is_header_done();
}

bool RequestParser::done() const {
  return impl_->is_done();
}

bool RequestParser::keep_alive() const {
  return impl_->keep_alive();
}

bool RequestParser::accepts_chunked() const {
  return impl_->version >= 11;
}

class ResponseParser::Impl : public Fields<false> {
 public:
  explicit Impl(HttpResponse& response)
      : Fields(response.headers, response.body), response_(response) {}

  std::optional<std::string> failure;

 private:
  void on_response_impl(int status, Text, int, ErrorCode&) override {
    response_.status = status;
    headers_.reserve(kUsualFields);
  }
  void on_trailer(Text name, Text value) override {
    if (same_field_name(name, "leat-error")) failure = std::string(value);
  }

  HttpResponse& response_;
};

ResponseParser::ResponseParser(HttpResponse& response, uint32_t header_bytes_max, bool to_head)
    : impl_(std::make_unique<Impl>(response)) {
  impl_->header_limit(header_bytes_max);
  impl_->body_limit(boost::none);
  if (to_head) impl_->skip(true);
}

ResponseParser::~ResponseParser() = default;

size_t ResponseParser::put(std::span<const std::byte> filled) {
  return put_into(*impl_, filled, fault_);
}

bool ResponseParser::header_done() const {
  return impl_->is_header_done();
}

bool ResponseParser::done() const {
  return impl_->is_done();
}

bool ResponseParser::keep_alive() const {
  return impl_->keep_alive();
}

std::optional<uint64_t> ResponseParser::content_length() const {
  const auto length = impl_->content_length();
  if (impl_->chunked() || !length) return std::nullopt;
  return *length;
}

void ResponseParser::take_body() {
  impl_->eager(true);
}

bool ResponseParser::put_eof() {
  ErrorCode failed;
  impl_->put_eof(failed);
  return !failed;
}

const std::optional<std::string>& ResponseParser::failure() const {
  return impl_->failure;
}

std::string_view reason_phrase(int status) {
  return bhttp::obsolete_reason(bhttp::int_to_status(static_cast<unsigned>(status)));
}

}  // namespace leat
