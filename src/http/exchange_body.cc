// SPDX-License-Identifier: Apache-2.0
// The part of Exchange that reads bodies. If the length is known, a body bypasses the parser: it
// goes from the socket to its destination.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "http/exchange.h"

namespace leat {
namespace {

constexpr size_t kPieceBytes = 256 * kKiB;  // of a streamed body, at most
// Maximum bytes read without yielding this thread.
constexpr size_t kReadInTurnMax = 1 * kMiB;

}  // namespace

Task<Result<>> Exchange::read_body() {
  if (request_.into_pieces && successful()) return read_pieces();
  const auto length = parser_->content_length();
  if (parser_->done()) return read_buffered(0);
  if (!length) return read_unknown_length();
  if (successful() && request_.sink) return read_streamed(*length);
  return read_buffered(*length);
}

Task<Result<>> Exchange::read_pieces() {
  IoVector into;
  for (std::span<std::byte> piece : request_.response_sink.pieces)
    into.add(piece.data(), piece.size());
  const auto length = parser_->content_length();
  if (!length) {
    co_return Error(
        broken(fmt::format("it has no length, and {} bytes were requested", into.left())));
  }
  if (*length != into.left()) {
    co_return Error(
        broken(fmt::format("it has {} bytes, and {} were requested", *length, into.left())));
  }
  if (request_.response_sink.accept) LEAT_CO_CHECK_OK(request_.response_sink.accept(response_));
  if (parser_->done()) co_return Result<>();
  const auto& on_bytes = request_.response_sink.on_bytes;
  Result<> filled = co_await fill(std::move(into), on_bytes ? &on_bytes : nullptr);
  co_return filled;
}

Result<> Exchange::check_body_size(uint64_t bytes) const {
  if (bytes <= request_.body_bytes_max) return {};
  return error(StatusCode::kOutOfRange, fmt::format("the response of {} is larger than {}", name_,
                                                    format_bytes(request_.body_bytes_max)));
}

Task<Result<>> Exchange::read_buffered(uint64_t length) {
  LEAT_CO_CHECK_OK(check_body_size(length));
  response_.body.resize(length);
  IoVector into(response_.body);
  Result<> filled = co_await fill(std::move(into), nullptr);
  co_return filled;
}

// Passes all received bytes on before it waits for more.
Task<Result<>> Exchange::read_streamed(uint64_t length) {
  while (length > 0) {
    Buffer piece(std::min<uint64_t>(length, kPieceBytes));
    IoVector into;
    into.add(piece.data(), piece.size());
    copy_from_input(into);
    IoResult got;
    while (into.left() > 0 && got.done()) {
      got = stream_.read_now(into);
      if (got.waits() && into.left() == piece.size()) {
        co_await stream_.wait_for(got.state);
        got = IoResult();
      }
    }
    if (!got.done() && !got.waits()) {
      co_return Error(got.state == IoResult::kEnd && stream_.cut_reason() == Stream::Cut::kNone
                          ? broken(fmt::format("it ended {} bytes early", length))
                          : failure(got, "read the response of"));
    }
    on_received();
    piece.truncate(piece.size() - into.left());
    length -= piece.size();
    LEAT_CO_CHECK_OK(co_await deliver(std::move(piece)));
  }
  co_return Result<>();
}

// The parser splits chunks, or a body that ends with the connection.
Task<Result<>> Exchange::read_unknown_length() {
  InputBuffer& input = stream_.input();
  parser_->take_body();
  while (!parser_->done()) {
    if (!input.empty()) {
      input.consume(parser_->put(input.filled()));
      if (parser_->fault()) co_return Error(broken(parser_->fault()->reason));
      LEAT_CO_CHECK_OK(co_await deliver_parsed());
      if (parser_->done()) break;
    }
    const std::span<std::byte> space = input.prepare(kPieceBytes);
    if (space.empty()) co_return Error(broken("a chunk's header is too large"));
    const IoResult got = co_await stream_.read_some(space);
    if (got.done()) {
      on_received();
      input.commit(got.bytes);
      continue;
    }
    if (got.state == IoResult::kEnd && stream_.cut_reason() == Stream::Cut::kNone) {
      if (!parser_->put_eof()) co_return Error(broken("it ended early"));
    } else {
      co_return Error(failure(got, "read the response of"));
    }
  }
  if (!parser_->failure()) co_return Result<>();
  auto reason = percent_decode(*parser_->failure(), false);
  co_return error(StatusCode::kUnavailable, reason.value_or("the response ended early"));
}

// Passes on the bytes that the parser has put into the body, if there is a sink.
Task<Result<>> Exchange::deliver_parsed() {
  if (!successful() || !request_.sink) co_return check_body_size(response_.body.size());
  if (response_.body.empty()) co_return Result<>();
  Result<> passed = co_await deliver(Bytes::of(std::exchange(response_.body, {})));
  co_return passed;
}

Task<Result<>> Exchange::deliver(Bytes piece) {
  const bool watched = limited_by_ == Limit::kIdle;
  if (watched) limit(Limit::kDeadline);
  Result<> taken = co_await request_.sink(std::move(piece));
  if (watched) limit(Limit::kIdle);
  co_return taken;
}

void Exchange::copy_from_input(IoVector& into) {
  InputBuffer& input = stream_.input();
  while (!input.empty() && into.left() > 0) {
    const iovec& piece = into.next()[0];
    const size_t bytes = std::min(piece.iov_len, input.filled().size());
    std::memcpy(piece.iov_base, input.filled().data(), bytes);
    input.consume(bytes);
    into.consume(bytes);
  }
}

Task<Result<>> Exchange::fill(IoVector into, const std::function<void(uint64_t)>* on_bytes) {
  const uint64_t length = into.left();
  copy_from_input(into);
  if (on_bytes != nullptr && into.left() < length) (*on_bytes)(length - into.left());
  for (size_t in_turn = 0; into.left() > 0;) {
    IoResult got{.state = IoResult::kWaitRead};
    if (in_turn < kReadInTurnMax) got = stream_.read_now(into);
    if (got.done()) {
      on_received();
      in_turn += got.bytes;
      if (on_bytes != nullptr) (*on_bytes)(length - into.left());
    } else if (got.waits()) {
      co_await stream_.wait_for(got.state);
      in_turn = 0;
    } else if (got.state == IoResult::kEnd && stream_.cut_reason() == Stream::Cut::kNone) {
      co_return Error(
          broken(fmt::format("it ended after {} of {} bytes", length - into.left(), length)));
    } else {
      co_return Error(failure(got, "read the response of"));
    }
  }
  co_return Result<>();
}

}  // namespace leat
