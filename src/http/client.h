// SPDX-License-Identifier: Apache-2.0
// HttpClient: requests to one endpoint, each on a connection of its own. Thread-safe.
#pragma once

#include <functional>

#include "base/units.h"
#include "http/endpoint.h"
#include "http/message.h"
#include "runtime/context.h"

namespace leat {

// Takes one piece of a streamed body; an error ends the request with that error.
using BodySink = std::function<Task<Result<>>(Bytes)>;

class HttpClient {
 public:
  explicit HttpClient(HttpEndpoint endpoint) : endpoint_(std::move(endpoint)) {}

  // The whole answer, whatever its status. kUnavailable when nobody listens or the connection
  // breaks, kTimedOut and kCancelled by the context, kOutOfRange for a body over `body_bytes_max`.
  Task<Result<HttpResponse>> request(Context context, HttpRequest request,
                                     uint64_t body_bytes_max = 64 * kMiB) const;

  // The same; the body of a 2xx answer goes to `sink` piece by piece, any other stays in the
  // response. An answer whose producer failed is kUnavailable with the producer's reason.
  Task<Result<HttpResponse>> request_streamed(Context context, HttpRequest request,
                                              BodySink sink) const;

 private:
  HttpEndpoint endpoint_;
};

}  // namespace leat
