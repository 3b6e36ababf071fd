// SPDX-License-Identifier: Apache-2.0
// HttpClient: sends requests to one endpoint, each on a new or an idle connection. Thread-safe
// and cheap to copy: copies share their connections.
//
// A connection carries one request at a time. It is closed if its request failed, was cancelled or
// timed out, so no other request gets any of its bytes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/units.h"
#include "http/endpoint.h"
#include "http/message.h"
#include "http/tls.h"
#include "runtime/context.h"

namespace leat {

class ClientPool;

// Receives one piece of a streamed body; an error ends the request with that error.
using BodySink = std::function<Task<Result<>>(Bytes)>;

struct HttpClientOptions {
  // Null: plain HTTP. Otherwise the server's certificate must match the endpoint's host.
  std::shared_ptr<const HttpTls> tls{};
  // Maximum connections, in use or idle; further requests wait until their context ends. 0:
  // unlimited, and none is kept.
  unsigned connections_max = 0;
  // How long an unused connection is kept. The one that was used last is taken first.
  Clock::duration idle_max = std::chrono::seconds(30);
  // Time limit of a connection set-up, TLS included; only the context bounds the resolution of a
  // name. After it the result is kUnavailable. Zero: no separate limit.
  Clock::duration connect_timeout = std::chrono::seconds(10);
  // For responses that may be silent for long. The kernel probes the other end after 5 s of
  // silence, and ends the connection without a reply for 6 s. That does not detect a process that
  // hangs.
  bool tcp_keepalive = false;
};

// Time limits of a request, beside its context's deadline; zero: none. Either ends it with
// kTimedOut and a message that names the limit. If the context is not expired(), the deadline was
// not the cause.
struct HttpRequestOptions {
  // From the first byte sent to the first byte of the response.
  Clock::duration first_byte_timeout{};
  // Between two parts of a response; the time of a sink is not counted.
  Clock::duration idle_timeout{};
  // Set to true once the server may have received the request. Outlives it; may be null.
  bool* sent = nullptr;
};

// Destination of the body of a 2xx response, and its observers.
struct HttpResponseSink {
  // Filled in order; together they have the size of the body. They must stay until the request has
  // ended.
  std::vector<std::span<std::byte>> pieces{};
  // Called with the head of a 2xx response before its body is received; an error ends the request.
  std::function<Result<>(const HttpResponse&)> accept{};
  // Called with the number of arrived bytes, which increases.
  std::function<void(uint64_t)> on_bytes{};
};

class HttpClient {
 public:
  explicit HttpClient(HttpEndpoint endpoint, HttpClientOptions options = {});

  // Returns the whole response, whatever its status. Returns kUnavailable if the server is not
  // reachable or the connection breaks, kTimedOut and kCancelled by the context, and kOutOfRange
  // for a body over `body_bytes_max`. Returns kPermissionDenied if one side rejects the other's
  // certificate.
  Task<Result<HttpResponse>> request(Context context, HttpRequest request,
                                     uint64_t body_bytes_max = 64 * kMiB,
                                     HttpRequestOptions options = {}) const;

  // Like request(); passes the body of a 2xx response to `sink` in pieces as they arrive. Any other
  // body is in the response. If the server's producer failed, returns kUnavailable with its reason.
  Task<Result<HttpResponse>> request_streamed(Context context, HttpRequest request, BodySink sink,
                                              HttpRequestOptions options = {}) const;

  // Like request(); the body of a 2xx response goes into the sink's pieces, without a copy if it
  // is long. After a failure their content is undefined, except for the bytes that on_bytes
  // reported. A 2xx response that does not announce exactly their length, or ends early, is
  // kUnavailable.
  Task<Result<HttpResponse>> request_into(Context context, HttpRequest request,
                                          HttpResponseSink response_sink,
                                          HttpRequestOptions options = {}) const;

  const HttpEndpoint& endpoint() const;

 private:
  std::shared_ptr<ClientPool> pool_;
};

}  // namespace leat
