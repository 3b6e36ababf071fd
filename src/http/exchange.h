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
struct Question {
  std::string head;
  std::string body;
  bool is_head = false;  // HEAD: the response has no body
  bool repeatable = false;
  HttpTerms terms;

  // Destination of a 2xx body: `sink`, `intake` (with `into_pieces`), or memory.
  BodySink sink;
  HttpIntake intake;
  bool into_pieces = false;
  uint64_t gathered_bytes_max = 1 * kMiB;  // limit for memory
};

class Exchange {
 public:
  // The arguments outlive the exchange. `name` names the other end in messages.
  Exchange(Stream& stream, const Question& question, const Context& context,
           const std::string& name)
      : stream_(stream), question_(question), context_(context), name_(name) {}

  Task<Result<HttpResponse>> run();
  // The connection can carry another request.
  bool reusable() const { return reusable_; }
  // The other end closed the connection before the request, so it most probably did not receive the
  // request.
  bool found_closed() const { return !heard_ && stream_.cut_reason() == Stream::Cut::kNone; }

 private:
  enum class Limit : uint8_t { kDeadline, kFirstByte, kSilence };

  Task<Result<>> send();
  Task<Result<>> read_head();
  Task<Result<>> read_body();
  Task<Result<>> read_pieces();
  Task<Result<>> read_gathered(uint64_t length);
  Task<Result<>> read_streamed(uint64_t length);
  Task<Result<>> read_unknown();
  // `arrived` may be null.
  Task<Result<>> fill(Pieces into, const std::function<void(uint64_t)>* arrived);
  Task<Result<>> pass_parsed();
  Task<Result<>> pass(Bytes piece);

  bool successful() const { return response_.status / 100 == 2; }
  Result<> check_gathered(uint64_t bytes) const;
  void copy_from_input(Pieces& into);
  void limit(Limit by);
  void heard();
  Status failure(const IoResult& failed, const char* doing) const;
  Status broken(std::string_view reason) const;

  Stream& stream_;
  const Question& question_;
  const Context& context_;
  const std::string& name_;
  HttpResponse response_;
  std::optional<ResponseParser> parser_;
  Limit limited_by_ = Limit::kDeadline;
  bool heard_ = false;
  bool reusable_ = false;
};

}  // namespace leat
