// SPDX-License-Identifier: Apache-2.0
#include "frontends/console/console_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "frontends/admin/admin_server.h"
#include "frontends/admin/codec.h"
#include "frontends/console/console_page.h"
#include "frontends/console/console_token.h"
#include "frontends/console/host_field.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter rejected_total("leat_console_auth_failures_total",
                       "Console requests rejected: no valid token, or a foreign Host header");

struct Route {
  const char* method;
  const char* pattern;
};

// Read-only routes, and jobs that fill or empty the cache. A stolen token shows names and figures,
// and costs speed. It reads no file's bytes, removes no mount, and changes nothing that outlives a
// job. So there is no cat, no change of mounts, snapshots or options, no evict, no upgrade (which
// executes a program) and no shutdown. A new control socket route must be added here on purpose.
constexpr std::array kRoutes = {
    // clang-format off
    Route{"GET", "/v1/status"},
    Route{"GET", "/v1/history"},
    Route{"GET", "/v1/findings"},
    Route{"GET", "/v1/mounts"},
    Route{"GET", "/v1/ls"},
    Route{"GET", "/v1/stat"},
    Route{"GET", "/v1/below"},
    Route{"GET", "/v1/errors"},
    Route{"GET", "/v1/slow"},
    Route{"GET", "/v1/jobs"},
    Route{"GET", "/v1/jobs/{id}"},
    Route{"DELETE", "/v1/jobs/{id}"},
    Route{"GET", "/v1/snapshots"},
    Route{"GET", "/v1/cache/objects"},
    // clang-format on
};
constexpr std::array kJobs = {"load", "free", "refresh", "verify"};

HttpResponse reject(int status, StatusCode code, std::string message) {
  return HttpResponse::failure(status, to_string(code), message);
}

Task<HttpResponse> not_offered(Context, HttpRequest request) {
  co_return reject(403, StatusCode::kPermissionDenied,
                   fmt::format("the console does not offer {} {}; use the command line or the "
                               "control socket",
                               request.method, request.path));
}

}  // namespace

ConsoleServer::ConsoleServer(HttpRouter control, std::string token, std::vector<std::string> hosts)
    : control_(std::move(control)),
      token_(std::move(token)),
      hosts_(std::move(hosts)),
      open_(AdminServer::metrics_router()) {
  for (const Route& route : kRoutes) {
    api_.add(route.method, route.pattern, [this](Context context, HttpRequest request) {
      return forward(std::move(context), std::move(request));
    });
  }
  api_.add("POST", "/v1/jobs", [this](Context context, HttpRequest request) {
    return start_job(std::move(context), std::move(request));
  });
  api_.set_fallback(&not_offered);
}

HttpRouter ConsoleServer::router() {
  HttpRouter router;
  router.set_fallback([this](Context context, HttpRequest request) {
    return answer(std::move(context), std::move(request));
  });
  return router;
}

// A foreign page that resolves its own name to this address has that name in its Host field.
bool ConsoleServer::accepts_host(const HttpRequest& request) const {
  const std::string_view host = request.headers.find("Host").value_or("");
  return is_loopback_host(host) || is_accepted_host(host, hosts_);
}

Task<HttpResponse> ConsoleServer::answer(Context context, HttpRequest request) {
  if (!accepts_host(request)) {
    rejected_total.add();
    HttpResponse response =
        reject(403, StatusCode::kPermissionDenied,
               "this address answers to localhost, 127.0.0.1, [::1] and the names of "
               "telemetry.hosts only, and the request's Host is none of them; open the console by "
               "the address that 'leat console' prints, from another host through ssh -L");
    set_page_headers(response);
    co_return response;
  }
  if (token_.empty() || request.path == "/metrics" || request.path == "/healthz") {
    HttpResponse response = co_await open_.handle(std::move(context), std::move(request));
    co_return response;
  }
  HttpResponse response = co_await answer_page(std::move(context), std::move(request));
  set_page_headers(response);
  co_return response;
}

Task<HttpResponse> ConsoleServer::answer_page(Context context, HttpRequest request) {
  HttpResponse response;
  if (request.path == "/v1" || request.path.starts_with("/v1/")) {
    if (has_token(request)) {
      response = co_await api_.handle(std::move(context), std::move(request));
    } else {
      rejected_total.add();
      response = reject(401, StatusCode::kPermissionDenied,
                        "this needs the console's token; 'leat console' prints an address with it");
      response.headers.set("WWW-Authenticate", "Bearer realm=\"leat\"");
    }
    response.headers.set("Cache-Control", "no-store");
  } else if (request.method != "GET" && request.method != "HEAD") {
    response =
        reject(405, StatusCode::kUnsupported,
               fmt::format("{} does not take {}; it takes GET", request.path, request.method));
    response.headers.set("Allow", "GET, HEAD");
  } else if (auto page = page_response(request)) {
    response = std::move(*page);
  } else {
    response = reject(404, StatusCode::kNotFound,
                      fmt::format("there is nothing at {}; the console is at /", request.path));
  }
  co_return response;
}

bool ConsoleServer::has_token(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given = request.headers.find("Authorization").value_or("");
  return given.starts_with(kScheme) && same_token(token_, given.substr(kScheme.size()));
}

Task<HttpResponse> ConsoleServer::forward(Context context, HttpRequest request) {
  return control_.handle(std::move(context), std::move(request));
}

Task<HttpResponse> ConsoleServer::start_job(Context context, HttpRequest request) {
  Result<Json> body = parse_json(request.body, "the request's body");
  if (!body) co_return error_response(body.error());
  auto kind = body->is_object() ? body->find("kind") : body->end();
  const std::string wanted =
      kind != body->end() && kind->is_string() ? kind->get<std::string>() : "";
  if (std::ranges::find(kJobs, wanted) == kJobs.end()) {
    co_return reject(403, StatusCode::kPermissionDenied,
                     fmt::format("the console starts no job '{}'; it starts {}", wanted,
                                 fmt::join(kJobs, ", ")));
  }
  HttpResponse response = co_await control_.handle(std::move(context), std::move(request));
  co_return response;
}

}  // namespace leat
