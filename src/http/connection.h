// SPDX-License-Identifier: Apache-2.0
// Connection: one client of the server, from its first request to its close. Private to this room.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "http/admission/remote_address.h"
#include "http/router.h"
#include "http/server.h"

namespace leat {

class Connection {
 public:
  // All that is referred to outlives it.
  struct Surroundings {
    const HttpRouter& router;
    const HttpServerOptions& options;
    Executor& executor;
    // Not empty: the first request is answered 503 with this reason, whatever it asks.
    std::string turned_away_because{};
  };
  static std::shared_ptr<Connection> create(boost::asio::generic::stream_protocol::socket socket,
                                            Surroundings around, std::stop_token stopping);
  virtual ~Connection() = default;

  // Answers requests until the client, an error, a timeout or `stopping` ends it. Needs no strand.
  virtual Task<> serve() = 0;
  // From any thread: ends a connection that waits for its next request; one that is answering goes
  // on to the end of its answer.
  virtual void wake() = 0;
  // From any thread: since when another client may have its place. Nothing while a request is
  // answered to a client that takes the answer, or arrives at the pace that is required.
  virtual std::optional<Clock::time_point> evictable_since() const = 0;
  // From any thread: ends a connection that is evictable. Returns whether it still was.
  virtual bool evict() = 0;
  // From any thread: ends it wherever it is.
  virtual void cut() = 0;

  virtual const RemoteAddress& address() const = 0;
};

}  // namespace leat
