// SPDX-License-Identifier: Apache-2.0
// HttpClient: requests to one endpoint, each on a connection of its own or on one that was kept.
// Thread-safe and cheap to copy: copies share their connections.
//
// A connection carries one request at a time. One whose request failed, was cancelled or ran out of
// time is closed, so nothing of it is ever met by another request.
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

// Takes one piece of a streamed body; an error ends the request with that error.
using BodySink = std::function<Task<Result<>>(Bytes)>;

struct HttpClientOptions {
  // Null: in clear. Else the server must prove to be the endpoint's host.
  std::shared_ptr<const HttpTls> tls{};
  // At most so many at a time, in use or kept; requests past that wait their turn until their
  // context ends. 0: as many as there are requests, and none is kept.
  unsigned connections_max = 0;
  // How long one is kept without a request. The one that was used last is taken first.
  Clock::duration idle_max = std::chrono::seconds(30);
  // For a connection to stand, TLS included; a name's resolution is bounded by the context alone.
  // Past that the endpoint is kUnavailable. Zero: no limit of its own.
  Clock::duration connect_timeout = std::chrono::seconds(10);
  // For answers that may be silent for long: the kernel asks the other end's after 5 s of silence
  // and ends what it does not answer for 6 s. A process that hangs is not found so.
  bool probed = false;
};

// What a request puts up with, beside its context's deadline; zero: anything. Either ends it with
// kTimedOut and a message that says which; unless the context is expired() as well, it was not the
// deadline.
struct HttpTerms {
  // From the request's first byte sent to the answer's first byte.
  Clock::duration first_byte_max{};
  // Between two parts of an answer; the time that a sink takes is not counted.
  Clock::duration silence_max{};
};

// Where the body of a 2xx answer goes, and who hears of it meanwhile.
struct HttpIntake {
  // Filled in their order; together as large as the body has to be. They must stay until the
  // request has ended.
  std::vector<std::span<std::byte>> pieces{};
  // Of a 2xx answer's head, before anything of the body is taken; an error ends the request.
  std::function<Result<>(const HttpResponse&)> accept{};
  // So many bytes have come; more each time.
  std::function<void(uint64_t)> arrived{};
};

class HttpClient {
 public:
  explicit HttpClient(HttpEndpoint endpoint, HttpClientOptions options = {});

  // The whole answer, whatever its status. kUnavailable when nobody listens or the connection
  // breaks, kTimedOut and kCancelled by the context, kOutOfRange for a body over `body_bytes_max`,
  // kPermissionDenied where one side does not believe the other's certificate.
  Task<Result<HttpResponse>> request(Context context, HttpRequest request,
                                     uint64_t body_bytes_max = 64 * kMiB,
                                     HttpTerms terms = {}) const;

  // The same; the body of a 2xx answer goes to `sink` piece by piece, as it comes; any other stays
  // in the response. An answer whose producer failed is kUnavailable with the producer's reason.
  Task<Result<HttpResponse>> request_streamed(Context context, HttpRequest request, BodySink sink,
                                              HttpTerms terms = {}) const;

  // The same; the body of a 2xx answer goes into the intake's pieces, without a copy where it is
  // long. Where it fails they hold anything, but for what arrived() has told of. A 2xx answer that
  // does not announce exactly their length, or ends before, is kUnavailable.
  Task<Result<HttpResponse>> request_into(Context context, HttpRequest request, HttpIntake intake,
                                          HttpTerms terms = {}) const;

  const HttpEndpoint& endpoint() const;

 private:
  std::shared_ptr<ClientPool> pool_;
};

}  // namespace leat
