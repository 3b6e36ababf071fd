// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 on one endpoint. Every resource that a client controls has a limit.
//
// Guarantees:
// 1. A request that is broken or too large is answered (400, 413, 431, 501) and its connection
// closed.
// 2. A client that sends nothing for `idle_timeout` or receives nothing for `write_timeout` is
// disconnected. So is a client that sends a head or a body slower than `head_timeout` and
// `body_bytes_s_min`.
// 3. If slots run out, the connection that is idle for the longest is closed to make room.
// 4. Clients above `connections_max` that find no slot wait in the kernel's queue, or are answered
// 503 (`overload_rejects_max`). Clients above the share of one remote address are answered 503.
//
// Thread-safe.
#pragma once

#include <memory>

#include "base/units.h"
#include "http/endpoint.h"
#include "http/router.h"
#include "http/tls.h"
#include "runtime/executor.h"

namespace leat {

struct HttpServerOptions {
  uint32_t header_bytes_max = 16 * kKiB;
  uint64_t body_bytes_max = 1 * kMiB;
  unsigned connections_max = 256;
  // Connections of one remote address (IPv6: of one /64). 0: half of connections_max, and three
  // quarters for loopback. A Unix socket has no such bound.
  unsigned connections_per_address_max = 0;
  // Maximum of further connections that are answered 503 at once. A liveness check then sees that
  // the server runs, and other clients can try another server. 0: they wait in the kernel's queue.
  unsigned overload_rejects_max = 0;
  Clock::duration idle_timeout = std::chrono::seconds(60);
  // Time limit of a whole head from its first byte, of a TLS handshake, and of the start of a body.
  Clock::duration head_timeout = std::chrono::seconds(10);
  // Minimum mean rate of a body after `head_timeout`, bytes/s.
  uint64_t body_bytes_s_min = 16 * kKiB;
  // Time for the client to receive any more of a response; max(): no limit.
  Clock::duration write_timeout = std::chrono::seconds(60);
  // A client that receives nothing of a response for this time may be evicted if slots run out;
  // not if write_timeout is max().
  Clock::duration blocked_min = std::chrono::seconds(5);
  // How long stop() waits for responses in flight before it closes their connections.
  Clock::duration stop_timeout = std::chrono::seconds(2);
  // Null: plain HTTP. Otherwise it must have a certificate; with a CA, clients must have one as
  // well.
  std::shared_ptr<const HttpTls> tls{};
};

class HttpServer {
 public:
  // Listens and serves from then on. A Unix socket gets mode 0600 before any client can connect,
  // and replaces the socket of a dead server. Returns kBusy if another server answers at the
  // endpoint.
  static Result<std::unique_ptr<HttpServer>> start(HttpEndpoint endpoint, HttpRouter router,
                                                   HttpServerOptions options, Executor& executor);
  virtual ~HttpServer() = default;

  // With the assigned port.
  virtual const HttpEndpoint& endpoint() const = 0;
  // Rejects further requests, cancels the contexts of those in flight, sends their responses, and
  // returns when every connection is closed. Must be called before destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
