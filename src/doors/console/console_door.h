// SPDX-License-Identifier: Apache-2.0
// ConsoleDoor: the loopback address of a host's daemon: /metrics and /healthz, open to everyone on
// this host; the console's page, which holds no data; and, for whoever has the token, those routes
// of the control socket that the page uses.
#pragma once

#include <string>

#include "http/router.h"

namespace leat {

class ConsoleDoor {
 public:
  // `control`: all routes of the control socket; what they refer to outlives the door. Without a
  // token there are metrics and nothing else.
  ConsoleDoor(HttpRouter control, std::string token);

  // The door outlives the router's use.
  HttpRouter router();

 private:
  Task<HttpResponse> answer(Context context, HttpRequest request);
  Task<HttpResponse> pass_on(Context context, HttpRequest request);
  Task<HttpResponse> start_job(Context context, HttpRequest request);
  bool has_token(const HttpRequest& request) const;

  const HttpRouter control_;
  const std::string token_;
  HttpRouter api_;  // what of it the console may use
};

}  // namespace leat
