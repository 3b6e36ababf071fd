// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shared_promise.h"

namespace leat {

struct Executor::Impl {
  explicit Impl(const ExecutorOptions& options)
      : io(static_cast<int>(thread_count(options))),
        guard(boost::asio::make_work_guard(io)),
        blocking_threads(options.blocking_threads),
        blocking(options.blocking_threads) {
    for (unsigned i = 0; i < thread_count(options); ++i) {
      threads.emplace_back([this] { io.run(); });
      pthread_setname_np(threads.back().native_handle(), ("leat-io-" + std::to_string(i)).c_str());
    }
  }

  static unsigned thread_count(const ExecutorOptions& options) {
    return options.threads != 0 ? options.threads
                                : std::max(2u, std::thread::hardware_concurrency());
  }

  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard;
  const unsigned blocking_threads;
  boost::asio::thread_pool blocking;
  std::vector<std::thread> threads;
};

Executor::Executor(ExecutorOptions options) : impl_(std::make_unique<Impl>(options)) {}

Executor::~Executor() {
  impl_->blocking.join();
  impl_->guard.reset();
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  ExecutorPostGuard::of(impl_->io.get_executor()).close();
}

boost::asio::any_io_executor Executor::any() const {
  return impl_->io.get_executor();
}

unsigned Executor::threads() const {
  return static_cast<unsigned>(impl_->threads.size());
}

unsigned Executor::blocking_threads() const {
  return impl_->blocking_threads;
}

void terminate_on_exception(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

void Executor::spawn(Task<> task) {
  boost::asio::co_spawn(impl_->io, std::move(task), terminate_on_exception);
}

bool Spawner::spawn(Task<> task) const {
  const std::optional<ExecutorPostGuard::Token> token = guard_.enter();
  if (!token) return false;
  boost::asio::co_spawn(io_, std::move(task), terminate_on_exception);
  return true;
}

void Executor::post(std::move_only_function<void()> call) {
  boost::asio::post(impl_->io, std::move(call));
}

void Executor::post_blocking(std::move_only_function<void()> call) {
  boost::asio::post(impl_->blocking, std::move(call));
}

Task<> sleep_uncancellable(Clock::duration duration) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, duration);
  boost::system::error_code ignored;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
}

Task<Result<>> sleep_for(Context context, Clock::duration duration) {
  if (auto alive = context.check("a pause"); !alive) co_return alive;
  // Wait for a value that is never set: only the deadline or the cancellation ends the wait.
  auto never = SharedPromise<bool>::make();
  Context pause = context;
  pause.deadline = std::min(Clock::now() + duration, context.deadline);
  (void)co_await never->wait(pause, "a pause");
  co_return context.check("a pause");
}

}  // namespace leat
