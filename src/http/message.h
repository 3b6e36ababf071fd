// SPDX-License-Identifier: Apache-2.0
// HttpRequest and HttpResponse: HTTP/1.1 messages for handlers and callers, independent of any
// library.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "runtime/task.h"

namespace leat {

class BlockingPool;

// Compares without regard to case.
bool same_field_name(std::string_view a, std::string_view b);

// In the order of the wire; names compare without regard to case.
class HttpHeaders {
 public:
  // Replaces a field of that name.
  void set(std::string name, std::string value);
  // Reserves memory for a known number of fields.
  void reserve(size_t count) { fields_.reserve(count); }
  std::optional<std::string_view> find(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_{};
};

struct HttpRequest {
  std::string method = "GET";
  std::string path = "/";                       // percent-decoded, without the query
  std::map<std::string, std::string> query{};   // decoded; of a repeated name the last one
  std::map<std::string, std::string> params{};  // what the route's {names} matched
  HttpHeaders headers{};
  std::string body{};
  // Path and query as sent, encoded, for signatures. The client sends it unchanged instead of
  // `path` and `query` unless it is empty. The server always sets it.
  std::string target{};
  // Set by the server: the client's address for logs ("10.0.0.7:40312", "unix"), and the common
  // name of its verified certificate, if TLS requires one.
  std::string peer{};
  std::string certificate{};
  // For the client: the request may be sent again if an idle connection was closed before any byte
  // of the response. GET and HEAD always may.
  bool idempotent = false;
};

// Receives a streamed response. write() returns when the kernel has the bytes, so a slow client
// slows its producer down. An error means that the client has closed and the producer should end.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  virtual Task<Result<>> write(Bytes data) = 0;
};

// A part of an open file as a body.
struct HttpFileBody {
  std::shared_ptr<const void> owner{};  // keeps the descriptor open
  int fd = -1;
  uint64_t offset = 0;
  uint64_t size = 0;
  // Threads that read what is not in the page cache: those of the file's disk, which outlive the
  // response. Null: the executor's.
  BlockingPool* threads = nullptr;
};

// The server takes the body from the first of `stream`, `file`, `bytes` and `body` that is set. A
// client gets it in `body`.
struct HttpResponse {
  int status = 200;
  HttpHeaders headers{};
  std::string body{};
  // Sent without a copy.
  Bytes bytes{};
  // Sent by the kernel (sendfile) on a plain connection. If the file is shorter than `size`, the
  // connection is closed, so that the client detects a short body.
  std::optional<HttpFileBody> file{};
  // Called once after the head was sent. The response is chunked. If the producer fails, the reason
  // is sent in the trailer field `leat-error` and the connection is closed.
  std::function<Task<Result<>>(std::shared_ptr<BodyWriter>)> stream{};
  // For a streamed body: sent as Content-Length instead of chunks. If the producer fails or writes
  // another amount, the connection is closed. For HEAD it suffices without `stream`.
  std::optional<uint64_t> stream_bytes{};
  // Released when the response was sent or is abandoned.
  std::shared_ptr<const void> owner{};

  static HttpResponse text(int status, std::string body);
  static HttpResponse json(int status, std::string body);
  // {"error":{"code":…,"message":…}}
  static HttpResponse failure(int status, std::string_view code, std::string_view message);
};

// Decodes "a%20b+c" to "a b c" in a query; in a path '+' stays. Returns kInvalidArgument for a
// broken escape or a NUL.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space);
// Escapes everything but unreserved characters (RFC 3986, 2.3) and '/'.
std::string percent_encode(std::string_view text);
// Returns "path" + "?a=b&c=d", encoded.
std::string make_target(std::string_view path, const std::map<std::string, std::string>& query);
// The inverse of make_target(): fills path and query.
Result<> parse_target(std::string_view target, HttpRequest& request);

}  // namespace leat
