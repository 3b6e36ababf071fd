// SPDX-License-Identifier: Apache-2.0
// ClientPool: the connections of a client: their maximum, and the idle ones. Private to this
// module. Thread-safe.
//
// Invariant: each request in flight holds a permit of slots(). Idle connections and requests in
// flight are together at most connections_max. A request dials only if no connection is idle, or
// instead of an idle one that was dead.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "http/client.h"
#include "http/stream.h"
#include "runtime/semaphore.h"

namespace leat {

class ClientPool : public std::enable_shared_from_this<ClientPool> {
 public:
  ClientPool(HttpEndpoint endpoint, HttpClientOptions options);

  const HttpEndpoint& endpoint() const { return endpoint_; }
  const HttpClientOptions& options() const { return options_; }
  // The Host field, and the dialled endpoint, as messages name it.
  const std::string& host() const { return host_; }
  const std::string& name() const { return name_; }
  bool keeps_alive() const { return options_.connections_max > 0; }

  // Each permit is the right to one connection.
  Semaphore& slots() { return slots_; }

  // Takes an idle connection of the same executor's context; null: dial.
  std::shared_ptr<Stream> take(const boost::asio::any_io_executor& executor);
  // Keeps a connection that is intact, between two requests, and unused from now on.
  void give(std::shared_ptr<Stream> stream);
  // Connects a new one.
  Task<Result<>> dial(std::shared_ptr<Stream> stream, Context context);

 private:
  struct IdleConnection {
    std::shared_ptr<Stream> stream;
    const void* context;  // of its executor
    Clock::time_point since;
  };
  struct ContextShutdownHook;

  void sweep_later(std::shared_ptr<boost::asio::steady_timer> timer, Clock::time_point when);
  void sweep(std::shared_ptr<boost::asio::steady_timer> timer);
  void drop(const void* context);

  Task<Result<>> connect(std::shared_ptr<Stream> stream, Context context);
  Task<Result<>> begin_tls(std::shared_ptr<Stream> stream, Context context);
  Clock::time_point deadline_of_dial(const Context& context) const;
  Status cannot_connect(const Stream& stream, const Context& context, std::string reason) const;

  const HttpEndpoint endpoint_;
  const HttpClientOptions options_;
  const std::string name_;
  const std::string host_;
  Semaphore slots_;

  std::mutex mutex_;                  // leaf
  std::vector<IdleConnection> idle_;  // the longest unused first
  bool sweeping_ = false;
  std::vector<const void*> hooked_contexts_;  // contexts with a hook
};

}  // namespace leat
