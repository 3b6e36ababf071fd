// SPDX-License-Identifier: Apache-2.0
// HttpServer: HTTP/1.1 on one endpoint. Every dimension that a client controls has a limit.
//
// Guarantees:
// - A request that is broken or too large is answered (400, 413, 431, 501) and its connection
//   closed.
// - A client that sends nothing for `idle_timeout` or takes nothing for `write_timeout` is cut off.
//   So is a client that sends a head or a body slower than `head_timeout` and `body_bytes_s_min`.
// - If places run out, the connection that is idle for the longest is closed to make room.
// - Clients above `connections_max` that find no place wait in the kernel's queue, or are answered
//   503 (`turned_away_max`). Clients above the share of one remote address are answered 503.
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
  // So many at a time above that are answered 503 at once, so that who asks whether we live sees
  // that we do, and the others can ask elsewhere. 0: they wait in the kernel's queue.
  unsigned turned_away_max = 0;
  Clock::duration idle_timeout = std::chrono::seconds(60);
  // For a whole head from its first byte, for a TLS handshake, and for a body to begin.
  Clock::duration head_timeout = std::chrono::seconds(10);
  // Minimum mean rate of a body after `head_timeout`, bytes/s.
  uint64_t body_bytes_s_min = 16 * kKiB;
  // For the client to take any more of an answer; max(): as long as it likes.
  Clock::duration write_timeout = std::chrono::seconds(60);
  // A client that takes nothing of an answer for so long gives its place to others if places run
  // out; not where write_timeout is max().
  Clock::duration blocked_min = std::chrono::seconds(5);
  // How long stop() waits for answers under way before it cuts their connections.
  Clock::duration stop_timeout = std::chrono::seconds(2);
  // Null: in clear. Else it must have a certificate; with a CA, clients must have one as well.
  std::shared_ptr<const HttpTls> tls{};
};

class HttpServer {
 public:
  // Listens and serves from then on. A Unix socket gets mode 0600 before anyone can connect, and
  // replaces the socket of a server that is gone; kBusy when another server answers at the
  // endpoint.
  static Result<std::unique_ptr<HttpServer>> start(HttpEndpoint endpoint, HttpRouter router,
                                                   HttpServerOptions options, Executor& executor);
  virtual ~HttpServer() = default;

  // With the port that was chosen.
  virtual const HttpEndpoint& endpoint() const = 0;
  // Takes no more requests, cancels the contexts of those under way, lets their answers go out, and
  // returns when every connection is closed. Must be called before destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
