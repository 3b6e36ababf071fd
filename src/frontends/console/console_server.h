// SPDX-License-Identifier: Apache-2.0
// ConsoleServer: the loopback address of a host's daemon. /metrics and /healthz are open to every
// program on this host, but not to pages of other sites. The console's page holds no data. With the
// token, those control socket routes are available that the page uses.
#pragma once

#include <string>
#include <vector>

#include "http/router.h"

namespace leat {

class ConsoleServer {
 public:
  // `control` has all routes of the control socket; its objects must outlive this one. Without a
  // token only metrics are served. `hosts` are accepted names in the Host field besides loopback.
  ConsoleServer(HttpRouter control, std::string token, std::vector<std::string> hosts = {});

  // The object must outlive the router.
  HttpRouter router();

 private:
  Task<HttpResponse> answer(Context context, HttpRequest request);
  Task<HttpResponse> answer_page(Context context, HttpRequest request);
  bool accepts_host(const HttpRequest& request) const;
  Task<HttpResponse> forward(Context context, HttpRequest request);
  Task<HttpResponse> start_job(Context context, HttpRequest request);
  bool has_token(const HttpRequest& request) const;

  const HttpRouter control_;
  const std::string token_;
  const std::vector<std::string> hosts_;
  const HttpRouter open_;  // for all programs of this host
  HttpRouter api_;         // control routes open to the console
};

}  // namespace leat
