// SPDX-License-Identifier: Apache-2.0
// PeerClient: a worker at an address, over HTTP: signed requests on keep-alive connections. Detects
// within 2 s a worker that was killed, stopped or cut off. A worker with a slow store is waited for
// (PeerWatch). Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cluster/cluster_view.h"
#include "http/client.h"
#include "peer/batches/read_batches.h"
#include "peer/changes.h"
#include "peer/peer.h"
#include "peer/peer_circuit.h"
#include "peer/peer_terms.h"
#include "peer/peer_watch.h"
#include "peer/snapshots/snapshot_peer.h"
#include "peer/trust/request_signature.h"
#include "runtime/executor.h"

namespace leat {

struct PeerClientOptions {
  std::string address{};  // "10.0.0.1:7480"
  WorkerId worker{};      // zero: any worker at the address
  std::shared_ptr<const HttpTls> tls{};
  unsigned connections_max = 64;
  Clock::duration connect_timeout = std::chrono::seconds(1);
  Clock::duration ping_timeout = std::chrono::seconds(1);
  PeerWatchOptions watch{};
  PeerCircuitOptions circuit{};
  bool batches = false;  // the worker supports batches
  SmallReadOptions small_reads{};
};

class PeerClient : public Peer, public BatchAsker, public std::enable_shared_from_this<PeerClient> {
 public:
  // kInvalidArgument for a bad address. All clients of a process share `signer`.
  static Result<std::shared_ptr<PeerClient>> make(PeerClientOptions options,
                                                  std::shared_ptr<RequestSigner> signer,
                                                  Executor& executor);

  // While the circuit is open, a ping makes the trial, so that no request waits for it.
  bool usable() const override;
  // Returns the batching of small reads; null if the worker does not support it.
  const ReadBatches* batches() const { return batches_.get(); }
  Task<PeerReply<void>> read(Context context, PeerRead request, std::span<std::byte> into) override;
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override;
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override;
  Task<PeerReply<uint64_t>> upkeep(Context context, PeerUpkeep request) override;
  Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) override;
  Task<PeerReply<UpkeepVerify>> verify(Context context, uint64_t job) override;
  Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) override;
  SnapshotPeer* snapshots() override { return snapshots_.get(); }

  // Sends any other request and returns its whole answer. The failure detector ignores the first
  // `grace` of the wait.
  Task<PeerReply<HttpResponse>> call(Context context, HttpRequest request, PeerRoute route,
                                     Clock::duration grace) override;

  // Returns success if the worker responds, with any status.
  Task<Result<>> ping() const;
  // Checks that the worker accepts our requests; kPermissionDenied carries its reason.
  Task<Result<>> check() const;
  // Long polls: null, or no changes and no number, if there was no news until the worker's own
  // timeout.
  Task<Result<ClusterViewPtr>> view(Context context, RegistryRevision after);
  Task<Result<PeerChanges>> changes(Context context, uint64_t after);
  // Calls the cluster's jobs (JobDoor): `below` follows kJobsPath, such as "/7". Returns the body.
  Task<PeerReply<std::string>> jobs(Context context, std::string method, std::string below,
                                    std::string ticket, std::string body);
  Task<Result<>> tell(Context context, PeerChanges changes);

 private:
  PeerClient(PeerClientOptions options, HttpEndpoint endpoint,
             std::shared_ptr<RequestSigner> signer, Executor& executor);

  Task<PeerReply<void>> read_alone(Context context, PeerRead request,
                                   std::span<std::byte> into) override;
  void received(uint64_t bytes) override;

  static Task<> try_again(std::shared_ptr<const PeerClient> self);

  Task<Result<HttpResponse>> answer_to_ping() const;
  void finish(HttpRequest& request) const;
  // Returns the whole answer; the failure detector ignores the first `grace`.
  Task<PeerReply<HttpResponse>> ask(Context context, HttpRequest request, Clock::duration grace);
  PeerTerms terms_of(const PeerRoute& route, const Context& context) const;
  Result<> check_range(const HttpResponse& response, const std::string& content_range) const;
  // Takes from an answer the process id of the worker; mutating requests must name it.
  void learn_instance(const HttpResponse& response);
  PeerReply<HttpResponse> judge(Result<HttpResponse> response, const Context& of_caller,
                                bool found_dead) const;

  const PeerClientOptions options_;
  const std::shared_ptr<RequestSigner> signer_;
  const HttpClient client_;
  const HttpClient pinging_;  // on separate connections
  const Spawner spawner_;
  std::shared_ptr<PeerWatch> watch_;
  mutable PeerCircuit circuit_;
  const std::shared_ptr<ReadBatches> batches_;  // null if not supported
  std::unique_ptr<SnapshotPeer> snapshots_;
  mutable std::mutex mutex_;  // leaf
  std::string instance_;
};

}  // namespace leat
