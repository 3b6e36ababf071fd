// SPDX-License-Identifier: Apache-2.0
// As little as a server of Beast can do: the same bytes to everybody, on the executor's thread,
// without time limits, which would cost it a timer each.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <string>

#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

inline Task<> serve_bare(boost::asio::ip::tcp::socket socket, const std::string* body) {
  namespace http = boost::beast::http;
  using boost::asio::redirect_error;
  using boost::asio::use_awaitable;
  boost::beast::flat_buffer buffer;
  boost::system::error_code failed;
  while (!failed) {
    http::request<http::empty_body> request;
    co_await http::async_read(socket, buffer, request, redirect_error(use_awaitable, failed));
    if (failed) break;
    http::response<http::span_body<const char>> response(http::status::ok, 11);
    response.body() = boost::beast::span<const char>(body->data(), body->size());
    response.prepare_payload();
    co_await http::async_write(socket, response, redirect_error(use_awaitable, failed));
  }
}

inline Task<> accept_bare(Executor* executor, boost::asio::ip::tcp::acceptor* acceptor,
                          const std::string* body) {
  for (;;) {
    boost::asio::ip::tcp::socket socket =
        co_await acceptor->async_accept(boost::asio::use_awaitable);
    socket.set_option(boost::asio::ip::tcp::no_delay(true));
    executor->spawn(serve_bare(std::move(socket), body));
  }
}

}  // namespace leat
