// SPDX-License-Identifier: Apache-2.0
// OneWorker: the door of one worker of the made cluster on loopback, over an empty store, and those
// who ask it.
#pragma once

#include <memory>

#include "cluster/view_signal.h"
#include "doors/peer/peer_door.h"
#include "http/server.h"
#include "peer/peer_client.h"
#include "runtime/executor.h"
#include "scale/setting.h"

namespace leat::scale {

class OneWorker {
 public:
  explicit OneWorker(const Setting& setting);
  ~OneWorker();

  static SecretSetPtr secrets();
  // Another worker, with connections of its own.
  std::shared_ptr<PeerClient> client();
  uint16_t port() const;

  Executor executor{{.threads = 2}};
  ChangeLog changes{{.mounts = [] { return std::vector<std::string>{"/train"}; }}};

 private:
  const WorkerId self_;
  ViewSignal map_;
  RequestVerifier verifier_;
  SourceTable sources_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  OwnPeer own_;
  PeerDoor door_;
  std::unique_ptr<HttpServer> server_;
  const std::shared_ptr<RequestSigner> signer_;
};

Task<Result<>> ask_changes(std::shared_ptr<PeerClient> client, uint64_t after);

}  // namespace leat::scale
