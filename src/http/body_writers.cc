// SPDX-License-Identifier: Apache-2.0
#include "http/body_writers.h"

#include <fmt/format.h>

namespace leat {
namespace {

Result<> to_result(const Stream& stream, const IoResult& written) {
  if (written.done()) return {};
  if (stream.cut_reason() == Stream::Cut::kTimedOut) {
    return error(StatusCode::kTimedOut, "cannot send an answer: the client took too long");
  }
  return error(StatusCode::kUnavailable,
               fmt::format("cannot send an answer: {}", stream.reason(written)));
}

// A producer may release the writer before the write ends, so nothing here refers to the writer.
Task<Result<>> write_pieces(std::shared_ptr<Stream> stream, Clock::duration write_timeout,
                            Bytes data, bool chunked) {
  const std::string begin = chunked ? fmt::format("{:x}\r\n", data.size()) : std::string();
  IoVector pieces(begin);
  pieces.add(data);
  if (chunked) pieces.add("\r\n");
  const IoResult written =
      co_await stream->write_all(std::move(pieces), {.timeout = write_timeout});
  co_return to_result(*stream, written);
}

Task<Result<>> at_once(Result<> result) {
  co_return result;
}

}  // namespace

Task<Result<>> ChunkWriter::write(Bytes data) {
  if (data.empty()) return at_once({});  // an empty chunk would end the body
  return write_pieces(stream_, write_timeout_, std::move(data), chunked_);
}

Task<Result<>> LengthWriter::write(Bytes data) {
  if (data.size() > left_) {
    left_ = UINT64_MAX;  // every further write fails
    return at_once(error(StatusCode::kInternal, "an answer is longer than was announced"));
  }
  left_ -= data.size();
  return write_pieces(stream_, write_timeout_, std::move(data), false);
}

}  // namespace leat
