// SPDX-License-Identifier: Apache-2.0
// EtcdRegistry: the registry that etcd keeps (≥ 3.4), by its JSON gateway over our own HTTP client.
//
// A request that etcd did not answer is put to the next endpoint, unless it may have changed
// something: then the caller hears kUnavailable. An endpoint without a leader is one that does not
// answer; a watch there ends.
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
  // In front of every key, so that several clusters share an etcd: "/leat/NAME/".
  std::string prefix{};
  // Where etcd asks for it.
  std::string user{};
  std::string password{};
  // Null: in clear.
  std::shared_ptr<const HttpTls> tls{};
  // Of one request at one endpoint.
  Clock::duration request_timeout = std::chrono::seconds(3);
};

class EtcdRegistry : public Registry {
 public:
  // Connects to nothing yet.
  static std::unique_ptr<EtcdRegistry> create(EtcdOptions options);
};

}  // namespace leat
