// SPDX-License-Identifier: Apache-2.0
// HttpRouter: maps a method and a path to a handler. Filled before the server starts and read-only
// afterwards, so it needs no lock.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "http/message.h"
#include "runtime/context.h"

namespace leat {

// The context is cancelled when the server stops. A handler that is a coroutine must be a function
// or a member, never a capturing lambda.
using HttpHandler = std::function<Task<HttpResponse>(Context, HttpRequest)>;

class HttpRouter {
 public:
  // `pattern`: "/v1/jobs/{id}"; a {name} matches one component, which is stored in request.params.
  // A GET route also answers HEAD: the server omits the body.
  void add(std::string method, std::string pattern, HttpHandler handler);
  // Like add(), with a member of `self`, which must outlive the router's use.
  template <class T>
  void add(std::string method, std::string pattern, T* self,
           Task<HttpResponse> (T::*member)(Context, HttpRequest)) {
    add(std::move(method), std::move(pattern),
        [self, member](Context context, HttpRequest request) {
          return (self->*member)(std::move(context), std::move(request));
        });
  }
  // Sets the handler of all requests that no route matches, instead of 404 and 405.
  void set_fallback(HttpHandler handler) { fallback_ = std::move(handler); }

  // Returns the handler's response, or 404 or 405 (with the allowed methods).
  Task<HttpResponse> handle(Context context, HttpRequest request) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> components;
    HttpHandler handler;
  };
  std::vector<Route> routes_;
  HttpHandler fallback_;
};

}  // namespace leat
