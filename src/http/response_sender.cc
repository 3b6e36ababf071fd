// SPDX-License-Identifier: Apache-2.0
#include "http/response_sender.h"

#include "http/body_writers.h"
#include "http/file_sender.h"
#include "http/message_head.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Returns nothing for a streamed body without an announced length.
std::optional<uint64_t> length_of(const HttpResponse& response) {
  if (response.stream_bytes) return response.stream_bytes;
  if (response.stream) return std::nullopt;
  if (response.file) return response.file->size;
  if (!response.bytes.empty()) return response.bytes.size();
  return response.body.size();
}

}  // namespace

// A response to HEAD has the length of GET (RFC 9110, 9.3.2), if it is known; a 304 has none.
Task<bool> ResponseSender::send(HttpResponse response, Options options) {
  const bool with_body = has_body(response.status);
  ResponseHead how{.keep_alive = options.keep_alive};
  if (with_body) how.content_length = length_of(response);
  if (!with_body || options.head_only) {
    std::string head = make_head(response, how);
    return send_memory(HttpResponse(), std::move(head), options.keep_alive);
  }
  if (!how.content_length) {
    how.chunked = options.chunks;
    how.keep_alive = options.keep_alive = options.keep_alive && options.chunks;
  }
  std::string head = make_head(response, how);
  if (!how.content_length) return send_chunks(std::move(response), std::move(head), options);
  if (response.stream || response.stream_bytes) {
    return send_length(std::move(response), std::move(head), options.keep_alive);
  }
  if (response.file) {
    return send_file(std::move(*response.file), std::move(head), options.keep_alive);
  }
  return send_memory(std::move(response), std::move(head), options.keep_alive);
}

Task<bool> ResponseSender::send_memory(HttpResponse response, std::string head, bool keep_alive) {
  IoVector pieces(head);
  if (!response.bytes.empty()) {
    pieces.add(response.bytes);
  } else {
    pieces.add(response.body);
  }
  IoResult sent = stream_->write_now(pieces, false);
  if (sent.waits()) {
    sent = co_await stream_->write_all(std::move(pieces), {.timeout = write_timeout_});
  }
  co_return sent.done() && keep_alive;
}

Task<bool> ResponseSender::send_file(HttpFileBody file, std::string head, bool keep_alive) {
  FileSender sender(*stream_, std::move(file), write_timeout_, executor_);
  const bool sent = co_await sender.send(std::move(head));
  co_return sent&& keep_alive;
}

Task<bool> ResponseSender::send_chunks(HttpResponse response, std::string head, Options options) {
  IoResult sent = co_await stream_->write_all(IoVector(head), {.timeout = write_timeout_});
  if (!sent.done()) co_return false;
  auto writer = std::make_shared<ChunkWriter>(stream_, options.chunks, write_timeout_);
  Result<> produced = co_await response.stream(std::move(writer));
  if (!produced) log::info("a response ended early: {}", produced.error().to_string());
  if (!options.chunks) co_return false;  // the close marks the end

  std::string end = "0\r\n";
  if (!produced) end += "leat-error: " + percent_encode(produced.error().to_string()) + "\r\n";
  end += "\r\n";
  sent = co_await stream_->write_all(IoVector(end), {.timeout = write_timeout_});
  co_return produced&& sent.done() && options.keep_alive;
}

// The length is already sent, so a failure's reason cannot be sent.
Task<bool> ResponseSender::send_length(HttpResponse response, std::string head, bool keep_alive) {
  const IoResult sent = co_await stream_->write_all(IoVector(head), {.timeout = write_timeout_});
  if (!sent.done() || !response.stream) co_return false;
  auto writer = std::make_shared<LengthWriter>(stream_, *response.stream_bytes, write_timeout_);
  Result<> produced = co_await response.stream(writer);
  if (produced && writer->left() != 0) {
    produced = error(StatusCode::kInternal, "it is not as long as was announced");
  }
  if (!produced) log::info("a response ended early: {}", produced.error().to_string());
  co_return produced&& keep_alive;
}

}  // namespace leat
