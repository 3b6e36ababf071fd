// SPDX-License-Identifier: Apache-2.0
// HttpRequest and HttpResponse: what handlers and callers see of HTTP/1.1, free of any library.
#pragma once

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

// In the order of the wire; names compare without regard to case.
class HttpHeaders {
 public:
  // Replaces a field of that name.
  void set(std::string name, std::string value);
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
};

// Where a streamed answer goes. write() returns when the bytes are with the kernel, so a slow
// client slows its producer down; an error means that the client is gone and the producer should
// end.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  virtual Task<Result<>> write(Bytes data) = 0;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers{};
  std::string body{};
  // Instead of `body`: called once after the head was sent. The answer is chunked; when the
  // producer fails, the reason travels in the trailer field `leat-error` and the connection is
  // closed.
  std::function<Task<Result<>>(std::shared_ptr<BodyWriter>)> stream{};

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
