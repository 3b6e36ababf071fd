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

// A client may outlive an executor; its kept connections may not. This service of the executor's
// context closes them before the context's other services end.
struct ClientPool::Shelter : asio::execution_context::service {
  using key_type = Shelter;
  static inline asio::execution_context::id id;

  explicit Shelter(asio::execution_context& owner) : service(owner), context(&owner) {}
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
      places_(options_.connections_max) {}

std::shared_ptr<Stream> ClientPool::take(const asio::any_io_executor& executor) {
  if (!keeps()) return nullptr;
  const void* context = &context_of(executor);
  std::lock_guard lock(mutex_);
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    if (kept->context != context) continue;
    std::shared_ptr<Stream> stream = std::move(kept->stream);
    kept_.erase(std::next(kept).base());
    return stream;
  }
  return nullptr;
}

void ClientPool::give(std::shared_ptr<Stream> stream) {
  stream->expires_never();
  if (!keeps() || stream->cut_reason() != Stream::Cut::kNone) return;
  const auto executor = stream->socket().get_executor();
  asio::execution_context& context = context_of(executor);
  bool first_of_context, begin_sweeping;
  {
    std::lock_guard lock(mutex_);
    first_of_context = std::ranges::find(sheltered_, &context) == sheltered_.end();
    if (first_of_context) sheltered_.push_back(&context);
    kept_.push_back({std::move(stream), &context, Clock::now()});
    begin_sweeping = !std::exchange(sweeping_, true);
  }
  if (first_of_context) asio::use_service<Shelter>(context).add(weak_from_this());
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
  std::vector<Kept> old;
  std::optional<Clock::time_point> next;
  {
    std::lock_guard lock(mutex_);
    const Clock::time_point border = Clock::now() - options_.idle_max;
    auto young = std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.since > border; });
    std::move(kept_.begin(), young, std::back_inserter(old));
    kept_.erase(kept_.begin(), young);
    sweeping_ = !kept_.empty();
    if (sweeping_) next = kept_.front().since + options_.idle_max;
  }
  if (next) sweep_later(std::move(timer), *next);
}

void ClientPool::drop(const void* context) {
  std::vector<Kept> gone;
  std::lock_guard lock(mutex_);
  auto rest =
      std::ranges::partition(kept_, [&](const Kept& kept) { return kept.context != context; });
  std::ranges::move(rest, std::back_inserter(gone));
  kept_.erase(rest.begin(), rest.end());
  std::erase(sheltered_, context);  // another context may get this address
  sweeping_ = false;                // the timer ended with the context
}

}  // namespace leat
