// SPDX-License-Identifier: Apache-2.0
// ConsoleDoor: the loopback address of a host's daemon: /metrics and /healthz, open to every
// program on this host and to no page of another site; the console's page, which holds no data;
// and, for whoever has the token, those routes of the control socket that the page uses.
#pragma once

#include <string>
#include <vector>

#include "http/router.h"

namespace leat {

class ConsoleDoor {
 public:
  // `control`: all routes of the control socket; what they refer to outlives the door. Without a
  // token there are metrics and nothing else. `hosts`: names beside those of loopback that a
  // request may have in its Host.
  ConsoleDoor(HttpRouter control, std::string token, std::vector<std::string> hosts = {});

  // The door outlives the router's use.
  HttpRouter router();

 private:
  Task<HttpResponse> answer(Context context, HttpRequest request);
  Task<HttpResponse> answer_page(Context context, HttpRequest request);
  bool takes_host(const HttpRequest& request) const;
  Task<HttpResponse> pass_on(Context context, HttpRequest request);
  Task<HttpResponse> start_job(Context context, HttpRequest request);
  bool has_token(const HttpRequest& request) const;

  const HttpRouter control_;
  const std::string token_;
  const std::vector<std::string> hosts_;
  const HttpRouter open_;  // for everyone on this host
  HttpRouter api_;         // what of it the console may use
};

}  // namespace leat
