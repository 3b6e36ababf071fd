// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.h"

#include <fmt/format.h>

namespace leat {
namespace {

constexpr uint32_t kHeaderBytesMax = 64 * kKiB;
constexpr size_t kInputBytesMax = kHeaderBytesMax + 16 * kKiB;

std::string in_ms(Clock::duration time) {
  return fmt::format("{} ms", std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

}  // namespace

Task<Result<HttpResponse>> Exchange::run() {
  const Result<> sent = co_await send();
  if (!sent && stream_.cut_reason() != Stream::Cut::kNone) co_return Error(sent.error());
  // A server that rejects a request may close before it has received all, but sends the reason
  // first.
  const Result<> head = co_await read_head();
  if (!head) {
    const bool explained = head.error().code() == StatusCode::kPermissionDenied;
    co_return Error(sent || explained ? head.error() : sent.error());
  }
  LEAT_CO_CHECK_OK(co_await read_body());
  reusable_ = sent && parser_->keep_alive() && stream_.input().empty();
  co_return std::move(response_);
}

Task<Result<>> Exchange::send() {
  limit(request_.options.first_byte_timeout > Clock::duration::zero() ? Limit::kFirstByte
                                                                      : Limit::kDeadline);
  IoVector pieces(request_.head);
  pieces.add(request_.body);
  IoResult sent = stream_.write_now(pieces, false);
  if (sent.waits()) sent = co_await stream_.write_all(std::move(pieces), {});
  if (!sent.done()) co_return Error(failure(sent, "send a request to"));
  co_return Result<>();
}

Task<Result<>> Exchange::read_head() {
  InputBuffer& input = stream_.input();
  const auto begin = [this] {
    response_ = HttpResponse();
    parser_.emplace(response_, kHeaderBytesMax, request_.is_head);
  };
  begin();
  for (;;) {
    if (!input.empty()) {
      input.consume(parser_->put(input.filled()));
      if (parser_->fault()) co_return Error(broken(parser_->fault()->reason));
      if (parser_->header_done() && response_.status / 100 != 1) co_return Result<>();
      // A 1xx precedes the response, which may be in the buffer already.
      if (parser_->header_done()) {
        begin();
        continue;
      }
    }
    const std::span<std::byte> space = input.prepare(kInputBytesMax);
    if (space.empty()) co_return Error(broken("its header is too large"));
    const IoResult got = co_await stream_.read_some(space);
    if (!got.done()) co_return Error(failure(got, "read the response of"));
    on_received();
    input.commit(got.bytes);
  }
}

void Exchange::limit(Limit by) {
  limited_by_ = by;
  Clock::time_point until = context_.deadline;
  if (by == Limit::kFirstByte) {
    until = std::min(until, Stream::after(request_.options.first_byte_timeout));
  } else if (by == Limit::kIdle) {
    until = std::min(until, Stream::after(request_.options.idle_timeout));
  }
  stream_.expires_at(until);
}

void Exchange::on_received() {
  if (request_.options.idle_timeout > Clock::duration::zero()) {
    limit(Limit::kIdle);
  } else if (limited_by_ == Limit::kFirstByte) {
    limit(Limit::kDeadline);
  }
  received_ = true;
}

Status Exchange::failure(const IoResult& failed, const char* doing) const {
  const std::string what = fmt::format("cannot {} {}", doing, name_);
  if (stream_.cut_reason() == Stream::Cut::kCancelled) {
    return {StatusCode::kCancelled, what + ": cancelled"};
  }
  if (stream_.cut_reason() == Stream::Cut::kTimedOut) {
    if (context_.expired() || limited_by_ == Limit::kDeadline) {
      return {StatusCode::kTimedOut, what + ": no response in time"};
    }
    if (limited_by_ == Limit::kFirstByte) {
      return {StatusCode::kTimedOut, fmt::format("{}: no byte of a response within {}", what,
                                                 in_ms(request_.options.first_byte_timeout))};
    }
    return {StatusCode::kTimedOut,
            fmt::format("{}: it sent nothing for {} in the middle of a response", what,
                        in_ms(request_.options.idle_timeout))};
  }
  const bool certificate_rejected = stream_.is_secure() && stream_.tls()->certificate_rejected();
  return {certificate_rejected ? StatusCode::kPermissionDenied : StatusCode::kUnavailable,
          fmt::format("{}: {}", what, stream_.reason(failed))};
}

Status Exchange::broken(std::string_view reason) const {
  return {StatusCode::kUnavailable,
          fmt::format("cannot read the response of {}: {}", name_, reason)};
}

}  // namespace leat
