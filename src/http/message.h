// SPDX-License-Identifier: Apache-2.0
// HttpRequest and HttpResponse: what handlers and callers see of HTTP/1.1, free of any library.
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

// Without regard to case.
bool same_field_name(std::string_view a, std::string_view b);

// In the order of the wire; names compare without regard to case.
class HttpHeaders {
 public:
  // Replaces a field of that name.
  void set(std::string name, std::string value);
  // For who knows how many there will be.
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
  // Path and query as they are sent, encoded, so that signatures can be computed over them. The
  // client sends it as it is in place of `path` and `query` unless it is empty; the server always
  // fills it.
  std::string target{};
  // The server fills these: who asks, for logs ("10.0.0.7:40312", "unix"), and the common name in
  // the certificate's subject, verified, where TLS demands one.
  std::string peer{};
  std::string certificate{};
  // For the client: may be sent again where a kept connection was closed before any byte of the
  // answer. GET and HEAD always may.
  bool repeatable = false;
};

// Where a streamed answer goes. write() returns when the bytes are with the kernel, so a slow
// client slows its producer down; an error means that the client is gone and the producer should
// end.
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
  // Reads what the page cache lacks: those of the file's disk, which outlive the answer; null: the
  // executor's.
  BlockingPool* threads = nullptr;
};

// A server's answer has its body in one of `stream`, `file`, `bytes` and `body`; of several the
// first one counts. A client's is in `body`.
struct HttpResponse {
  int status = 200;
  HttpHeaders headers{};
  std::string body{};
  // Sent without being copied.
  Bytes bytes{};
  // Sent without passing through this process where the connection is in clear. One that turns out
  // shorter than `size` closes the connection, so that the client sees a short body.
  std::optional<HttpFileBody> file{};
  // Called once after the head was sent. The answer is chunked; when the producer fails, the reason
  // travels in the trailer field `leat-error` and the connection is closed.
  std::function<Task<Result<>>(std::shared_ptr<BodyWriter>)> stream{};
  // Of a streamed body: sent as Content-Length in place of chunks. A producer that fails or writes
  // another amount closes the connection. For HEAD it is enough without `stream`.
  std::optional<uint64_t> stream_bytes{};
  // Let go when the answer was sent, or will not be.
  std::shared_ptr<const void> held{};

  static HttpResponse text(int status, std::string body);
  static HttpResponse json(int status, std::string body);
  // {"error":{"code":…,"message":…}}
  static HttpResponse failure(int status, std::string_view code, std::string_view message);
};

// "a%20b+c" → "a b c" in a query; in a path '+' stays. kInvalidArgument on a broken escape or a
// NUL.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space);
// Everything but unreserved characters (RFC 3986, 2.3) and '/' is escaped.
std::string percent_encode(std::string_view text);
// "path" + "?a=b&c=d", encoded.
std::string make_target(std::string_view path, const std::map<std::string, std::string>& query);
// The inverse: fills path and query.
Result<> parse_target(std::string_view target, HttpRequest& request);

}  // namespace leat
