// SPDX-License-Identifier: Apache-2.0
// OneWorker: the peer server of one worker of the synthetic cluster on loopback, over an empty
// store, and its clients.
#pragma once

#include <memory>

#include "cluster/view_watch.h"
#include "frontends/peer/peer_server.h"
#include "http/server/server.h"
#include "peer/client/peer_client.h"
#include "runtime/executor.h"
#include "scale/setting.h"

namespace leat::scale {

class OneWorker {
 public:
  explicit OneWorker(const Setting& setting);
  ~OneWorker();

  static SecretSetPtr secrets();
  // Returns a client with its own connections.
  std::shared_ptr<PeerClient> client();
  uint16_t port() const;

  Executor executor{{.threads = 2}};
  InvalidationLog changes{{.mounts = [] { return std::vector<std::string>{"/train"}; }}};

 private:
  const WorkerId self_;
  ViewWatch views_;
  RequestVerifier verifier_;
  SourceTable sources_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  WorkerService service_;
  PeerServer peer_server_;
  std::unique_ptr<HttpServer> server_;
  const std::shared_ptr<RequestSigner> signer_;
};

Task<Result<>> request_changes(std::shared_ptr<PeerClient> client, uint64_t after);

}  // namespace leat::scale
