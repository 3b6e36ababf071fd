// SPDX-License-Identifier: Apache-2.0
// HttpRouter: which handler answers a method and a path. Filled before the server starts, read-only
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
  // `pattern`: "/v1/jobs/{id}"; a {name} matches one component and lands in request.params.
  // A GET route answers HEAD, too: the server leaves the body out.
  void add(std::string method, std::string pattern, HttpHandler handler);
  // The same by a member of `self`, which must outlive the router's use.
  template <class T>
  void add(std::string method, std::string pattern, T* self,
           Task<HttpResponse> (T::*member)(Context, HttpRequest)) {
    add(std::move(method), std::move(pattern),
        [self, member](Context context, HttpRequest request) {
          return (self->*member)(std::move(context), std::move(request));
        });
  }
  // What answers everything that no route matches, in place of 404 and 405.
  void add_rest(HttpHandler handler) { rest_ = std::move(handler); }

  // The handler's answer, or 404 or 405 (naming the methods that there are).
  Task<HttpResponse> handle(Context context, HttpRequest request) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> components;
    HttpHandler handler;
  };
  std::vector<Route> routes_;
  HttpHandler rest_;
};

}  // namespace leat
