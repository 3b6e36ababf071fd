// SPDX-License-Identifier: Apache-2.0
// Connection: one client of the server, from its first request to its close. Private to this room;
// the file behind it and client.cc are the only ones that know Beast.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <stop_token>

#include "http/router.h"
#include "http/server.h"

namespace leat {

class Connection {
 public:
  // `socket` runs on a strand, on which all of this happens. `router` and `options` outlive it.
  static std::shared_ptr<Connection> create(boost::asio::generic::stream_protocol::socket socket,
                                            const HttpRouter& router,
                                            const HttpServerOptions& options,
                                            std::stop_token stopping);
  virtual ~Connection() = default;

  // Answers requests until the client, an error, a timeout or `stopping` ends it.
  virtual Task<> serve() = 0;
  // From any thread: ends a connection that waits for its next request; one that is answering goes
  // on to the end of its answer.
  virtual void wake() = 0;
  // From any thread: ends it wherever it is.
  virtual void cut() = 0;
};

}  // namespace leat
