// SPDX-License-Identifier: Apache-2.0
// A minimal server of Beast: bodies from memory, by number ("/17"), the first one for
// what is none; on the executor's thread, without time limits, which would cost it a timer each.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

inline size_t body_number(std::string_view target) {
  size_t number = 0;
  std::from_chars(target.data() + 1, target.data() + target.size(), number);
  return number;
}

inline Task<> serve_bare(boost::asio::ip::tcp::socket socket,
                         const std::vector<std::string>* bodies) {
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
    const std::string_view target(request.target().data(), request.target().size());
    const std::string& body = (*bodies)[body_number(target) % bodies->size()];
    response.body() = boost::beast::span<const char>(body.data(), body.size());
    response.prepare_payload();
    co_await http::async_write(socket, response, redirect_error(use_awaitable, failed));
  }
}

inline Task<> accept_bare(Executor* executor, boost::asio::ip::tcp::acceptor* acceptor,
                          const std::vector<std::string>* bodies) {
  for (;;) {
    boost::asio::ip::tcp::socket socket =
        co_await acceptor->async_accept(boost::asio::use_awaitable);
    socket.set_option(boost::asio::ip::tcp::no_delay(true));
    executor->spawn(serve_bare(std::move(socket), bodies));
  }
}

}  // namespace leat
