// SPDX-License-Identifier: Apache-2.0
#include "http/client_pool.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>

namespace leat {

namespace asio = boost::asio;

namespace {

asio::execution_context& context_of(const asio::any_io_executor& executor) {
  return asio::query(executor, asio::execution::context);
}

std::string host_field(const HttpEndpoint& endpoint) {
  return endpoint.unix_path.empty() ? endpoint.to_string() : "localhost";
}

}  // namespace

// A client may outlive an executor; its idle connections may not. This service of the executor's
// context closes them before the context's other services end.
struct ClientPool::ContextShutdownHook : asio::execution_context::service {
  using key_type = ContextShutdownHook;
  static inline asio::execution_context::id id;

  explicit ContextShutdownHook(asio::execution_context& owner) : service(owner), context(&owner) {}
  void shutdown() override {
    for (const auto& weak : pools) {
      if (auto pool = weak.lock()) pool->drop(context);
    }
  }
  void add(std::weak_ptr<ClientPool> pool) {
    std::lock_guard lock(mutex);
    std::erase_if(pools, [](const auto& weak) { return weak.expired(); });
    pools.push_back(std::move(pool));
  }

  const void* const context;
  std::mutex mutex;  // leaf
  std::vector<std::weak_ptr<ClientPool>> pools;
};

ClientPool::ClientPool(HttpEndpoint endpoint, HttpClientOptions options)
    : endpoint_(std::move(endpoint)),
      options_(std::move(options)),
      name_(endpoint_.to_string()),
      host_(host_field(endpoint_)),
      slots_(options_.connections_max) {}

std::shared_ptr<Stream> ClientPool::take(const asio::any_io_executor& executor) {
  if (!keeps_alive()) return nullptr;
  const void* context = &context_of(executor);
  std::lock_guard lock(mutex_);
  for (auto idle = idle_.rbegin(); idle != idle_.rend(); ++idle) {
    if (idle->context != context) continue;
    std::shared_ptr<Stream> stream = std::move(idle->stream);
    idle_.erase(std::next(idle).base());
    return stream;
  }
  return nullptr;
}

void ClientPool::give(std::shared_ptr<Stream> stream) {
  stream->expires_never();
  if (!keeps_alive() || stream->cut_reason() != Stream::Cut::kNone) return;
  const auto executor = stream->socket().get_executor();
  asio::execution_context& context = context_of(executor);
  bool first_of_context, begin_sweeping;
  {
    std::lock_guard lock(mutex_);
    first_of_context = std::ranges::find(hooked_contexts_, &context) == hooked_contexts_.end();
    if (first_of_context) hooked_contexts_.push_back(&context);
    idle_.push_back({std::move(stream), &context, Clock::now()});
    begin_sweeping = !std::exchange(sweeping_, true);
  }
  if (first_of_context) asio::use_service<ContextShutdownHook>(context).add(weak_from_this());
  if (begin_sweeping) {
    sweep_later(std::make_shared<asio::steady_timer>(executor), Stream::after(options_.idle_max));
  }
}

// The timer is owned by its own wait, so a destroyed client leaves nothing else.
void ClientPool::sweep_later(std::shared_ptr<asio::steady_timer> timer, Clock::time_point when) {
  timer->expires_at(when);
  asio::steady_timer& waiting = *timer;
  waiting.async_wait([timer = std::move(timer),
                      weak = weak_from_this()](boost::system::error_code failed) mutable {
    auto self = weak.lock();
    if (!failed && self) self->sweep(std::move(timer));
  });
}

void ClientPool::sweep(std::shared_ptr<asio::steady_timer> timer) {
  std::vector<IdleConnection> old;
  std::optional<Clock::time_point> next;
  {
    std::lock_guard lock(mutex_);
    const Clock::time_point border = Clock::now() - options_.idle_max;
    auto young = std::ranges::find_if(
        idle_, [&](const IdleConnection& idle) { return idle.since > border; });
    std::move(idle_.begin(), young, std::back_inserter(old));
    idle_.erase(idle_.begin(), young);
    sweeping_ = !idle_.empty();
    if (sweeping_) next = idle_.front().since + options_.idle_max;
  }
  if (next) sweep_later(std::move(timer), *next);
}

void ClientPool::drop(const void* context) {
  std::vector<IdleConnection> removed;
  std::lock_guard lock(mutex_);
  auto rest = std::ranges::partition(
      idle_, [&](const IdleConnection& idle) { return idle.context != context; });
  std::ranges::move(rest, std::back_inserter(removed));
  idle_.erase(rest.begin(), rest.end());
  std::erase(hooked_contexts_, context);  // another context may get this address
  sweeping_ = false;                      // the timer ended with the context
}

}  // namespace leat
