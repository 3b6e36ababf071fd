// SPDX-License-Identifier: Apache-2.0
// Task<T>: the return type of functions that wait. A lazy coroutine, started by co_await or spawn.
// Rules (STYLE): parameters by value, no capturing lambda as a coroutine, one co_await a statement,
// no lock held over a co_await, never block the thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace leat {

template <class T = void>
using Task = boost::asio::awaitable<T>;

}  // namespace leat
