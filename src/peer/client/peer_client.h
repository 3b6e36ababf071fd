// SPDX-License-Identifier: Apache-2.0
// PeerClient: a worker at an address, over HTTP: signed requests on keep-alive connections. Detects
// within 2 s a worker that was killed, stopped or cut off. A worker with a slow store is waited for
// (FailureDetector). Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "auth/request_signature.h"
#include "cluster/cluster_view.h"
#include "http/client.h"
#include "peer/batching/batched_reader.h"
#include "peer/failure_detector.h"
#include "peer/peer.h"
#include "peer/peer_circuit_breaker.h"
#include "peer/snapshots/snapshot_peer.h"
#include "peer/writing/write_peer.h"
#include "runtime/executor.h"
#include "wire/invalidations.h"
#include "wire/peer_request_header.h"

namespace leat {

struct PeerClientOptions {
  std::string address{};  // "10.0.0.1:7480"
  WorkerId worker{};      // zero: any worker at the address
  std::shared_ptr<const HttpTls> tls{};
  unsigned connections_max = 256;
  Clock::duration connect_timeout = std::chrono::seconds(1);
  Clock::duration ping_timeout = std::chrono::seconds(1);
  FailureDetectorOptions failure_detector{};
  PeerCircuitBreakerOptions circuit_breaker{};
  bool supports_batches = false;  // the worker supports batches
  ReadBatcherOptions read_batcher{};
};

class PeerClient : public Peer,
                   public BatchTransport,
                   public std::enable_shared_from_this<PeerClient> {
 public:
  // kInvalidArgument for a bad address. All clients of a process share `signer`.
  static Result<std::shared_ptr<PeerClient>> make(PeerClientOptions options,
                                                  std::shared_ptr<RequestSigner> signer,
                                                  Executor& executor);

  // While the circuit is open, a ping makes the trial, so that no request waits for it.
  bool usable() const override;
  // Returns the batching of small reads; null if the worker does not support it.
  const BatchedReader* batched_reader() const { return batched_reader_.get(); }
  Task<PeerReply<void>> read(Context context, PeerRead request, std::span<std::byte> into) override;
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override;
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override;
  Task<PeerReply<uint64_t>> cache_op(Context context, PeerCacheOp request) override;
  Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) override;
  Task<PeerReply<VerifyProgress>> verify(Context context, uint64_t job) override;
  Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) override;
  SnapshotPeer* snapshots() override { return snapshots_.get(); }
  WritePeer* writes() override { return writes_.get(); }
  StagingPeer* staging() override { return staging_.get(); }

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
  Task<Result<Invalidations>> invalidations(Context context, uint64_t after);
  // Calls the cluster's jobs (JobRoutes): `below` follows kJobsPath, such as "/7". Returns the
  // body.
  Task<PeerReply<std::string>> jobs(Context context, std::string method, std::string below,
                                    std::string idempotency_key, std::string body);
  Task<Result<>> send_invalidations(Context context, Invalidations invalidations);

 private:
  PeerClient(PeerClientOptions options, HttpEndpoint endpoint,
             std::shared_ptr<RequestSigner> signer, Executor& executor);

  Task<PeerReply<void>> read_alone(Context context, PeerRead request,
                                   std::span<std::byte> into) override;
  void received(uint64_t bytes) override;

  static Task<> probe(std::shared_ptr<const PeerClient> self);

  Task<Result<HttpResponse>> ping_response() const;
  void complete_request(HttpRequest& request) const;
  // Returns the whole answer; the failure detector ignores the first `grace`.
  Task<PeerReply<HttpResponse>> send(Context context, HttpRequest request, Clock::duration grace);
  PeerRequestHeader header_of(const PeerRoute& route, const Context& context) const;
  Result<> check_range(const HttpResponse& response, const std::string& content_range) const;
  // Takes from an answer the process id of the worker; mutating requests must name it.
  void learn_instance(const HttpResponse& response);
  PeerReply<HttpResponse> classify(Result<HttpResponse> response, const Context& of_caller,
                                   bool peer_failed) const;

  const PeerClientOptions options_;
  const std::shared_ptr<RequestSigner> signer_;
  const HttpClient client_;
  const HttpClient ping_client_;  // on separate connections
  const Spawner spawner_;
  std::shared_ptr<FailureDetector> failure_detector_;
  mutable PeerCircuitBreaker circuit_breaker_;
  const std::shared_ptr<BatchedReader> batched_reader_;  // null if not supported
  std::unique_ptr<SnapshotPeer> snapshots_;
  std::unique_ptr<WritePeer> writes_;
  std::unique_ptr<StagingPeer> staging_;
  mutable std::mutex mutex_;  // leaf
  std::string instance_;
};

}  // namespace leat
