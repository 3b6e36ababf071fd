// SPDX-License-Identifier: Apache-2.0
// Connection: one client of the server, from its first request to its close. Private to this
// module.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "http/remote_address.h"
#include "http/router.h"
#include "http/server/server.h"

namespace leat {

class Connection {
 public:
  // All referenced objects outlive the connection.
  struct Deps {
    const HttpRouter& router;
    const HttpServerOptions& options;
    Executor& executor;
    // If not empty, the first request is answered 503 with this reason.
    std::string reject_reason{};
  };
  static std::shared_ptr<Connection> create(boost::asio::generic::stream_protocol::socket socket,
                                            Deps deps, std::stop_token stopping);
  virtual ~Connection() = default;

  // Serves requests until the client, an error, a timeout or `stopping` ends it. Needs no strand.
  virtual Task<> serve() = 0;
  // From any thread: ends a connection that waits for its next request. A response in flight is
  // sent to its end.
  virtual void wake() = 0;
  // From any thread: since when the connection may be evicted. Nothing while a request arrives at
  // the required pace, or while its response is produced and received.
  virtual std::optional<Clock::time_point> evictable_since() const = 0;
  // From any thread: ends a connection that is evictable. Returns whether it still was.
  virtual bool evict() = 0;
  // From any thread: closes the connection in any state.
  virtual void cut() = 0;

  virtual const RemoteAddress& address() const = 0;
};

}  // namespace leat
