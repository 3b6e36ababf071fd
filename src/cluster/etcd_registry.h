// SPDX-License-Identifier: Apache-2.0
// EtcdRegistry: a registry in etcd (≥ 3.4), by its JSON gateway over our own HTTP client.
//
// A request without an answer is retried at the next endpoint, unless it may have changed
// something; then it fails with kUnavailable. An endpoint without a leader counts as not
// responding, and a watch there ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/registry.h"
#include "http/endpoint.h"
#include "http/tls.h"
#include "runtime/context.h"

namespace leat {

struct EtcdOptions {
  std::vector<HttpEndpoint> endpoints{};  // at least one
  // Prefix of every key, so that several clusters can share an etcd: "/leat/NAME/".
  std::string prefix{};
  // Used if etcd requires a login.
  std::string user{};
  std::string password{};
  // Null: no TLS.
  std::shared_ptr<const HttpTls> tls{};
  // Timeout of one request at one endpoint.
  Clock::duration request_timeout = std::chrono::seconds(3);
};

class EtcdRegistry : public Registry {
 public:
  // Opens no connection yet.
  static std::unique_ptr<EtcdRegistry> create(EtcdOptions options);
};

}  // namespace leat
