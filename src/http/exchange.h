// SPDX-License-Identifier: Apache-2.0
// Exchange: one request and its response on one connection. Private to this module.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/client.h"
#include "http/message_parser.h"
#include "http/stream.h"

namespace leat {

// The request and the destination of its response; the same for a second attempt.
struct ExchangeRequest {
  std::string head;
  std::string body;
  bool is_head = false;  // HEAD: the response has no body
  bool idempotent = false;
  HttpRequestOptions options;

  // Destination of a 2xx body: `sink`, `response_sink` (with `into_pieces`), or memory.
  BodySink sink;
  HttpResponseSink response_sink;
  bool into_pieces = false;
  uint64_t body_bytes_max = 1 * kMiB;  // limit for memory
};

class Exchange {
 public:
  // The arguments outlive the exchange. `name` names the other end in messages.
  Exchange(Stream& stream, const ExchangeRequest& request, const Context& context,
           const std::string& name)
      : stream_(stream), request_(request), context_(context), name_(name) {}

  Task<Result<HttpResponse>> run();
  // The connection can carry another request.
  bool reusable() const { return reusable_; }
  // The other end closed the connection before the request, so it most probably did not receive the
  // request.
  bool found_closed() const { return !received_ && stream_.cut_reason() == Stream::Cut::kNone; }

 private:
  enum class Limit : uint8_t { kDeadline, kFirstByte, kIdle };

  Task<Result<>> send();
  Task<Result<>> read_head();
  Task<Result<>> read_body();
  Task<Result<>> read_pieces();
  Task<Result<>> read_buffered(uint64_t length);
  Task<Result<>> read_streamed(uint64_t length);
  Task<Result<>> read_unknown_length();
  // `on_bytes` may be null.
  Task<Result<>> fill(IoVector into, const std::function<void(uint64_t)>* on_bytes);
  Task<Result<>> deliver_parsed();
  Task<Result<>> deliver(Bytes piece);

  bool successful() const { return response_.status / 100 == 2; }
  Result<> check_body_size(uint64_t bytes) const;
  void copy_from_input(IoVector& into);
  void limit(Limit by);
  void on_received();
  Status failure(const IoResult& failed, const char* doing) const;
  Status broken(std::string_view reason) const;

  Stream& stream_;
  const ExchangeRequest& request_;
  const Context& context_;
  const std::string& name_;
  HttpResponse response_;
  std::optional<ResponseParser> parser_;
  Limit limited_by_ = Limit::kDeadline;
  bool received_ = false;
  bool reusable_ = false;
};

}  // namespace leat
