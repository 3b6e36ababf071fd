// SPDX-License-Identifier: Apache-2.0
// The objects of a cluster's mount as one worker lists them, and signed requests for ranges of
// them.
#pragma once

#include <string>
#include <vector>

#include "peer/client/peer_client.h"
#include "raw_client.h"
#include "wire/read_request.h"

namespace leat {

struct WorkerEndpoint {
  std::string address{};
  std::shared_ptr<RequestSigner> signer{};
  std::shared_ptr<PeerClient> client{};
  std::shared_ptr<const HttpTls> tls{};
  ClusterMount mount{};
  WorkerId id{};
  int64_t epoch = 0;
};

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) raw::fail(std::string(what) + ": " + result.error().to_string());
  return *std::move(result);
}

inline Context for_a_while() {
  return Context::background().with_timeout(std::chrono::seconds(30));
}

// `certificates`: none, or the files of CA, certificate and key. `together`: small reads in one
// request.
inline WorkerEndpoint connect_to_worker(const std::string& address, const std::string& token_file,
                                        const std::string& mount,
                                        const std::vector<std::string>& certificates,
                                        Executor& executor, size_t together = 1) {
  WorkerEndpoint worker{.address = address};
  worker.signer = std::make_shared<RequestSigner>(must(Token::read(token_file), "token"));
  if (certificates.size() == 3) {
    HttpTlsOptions files{.ca_file = certificates[0],
                         .certificate_file = certificates[1],
                         .key_file = certificates[2]};
    worker.tls = must(HttpTls::load(files), "certificates");
  }
  PeerClientOptions options{.address = address, .tls = worker.tls};
  const auto any_worker = must(PeerClient::make(options, worker.signer, executor), "worker");
  const ClusterViewPtr view = must(executor.block_on(any_worker->view(for_a_while(), 0)), "view");
  const auto found = view->mounts.find(mount);
  if (found == view->mounts.end()) raw::fail("nothing is mounted at " + mount);
  worker.mount = found->second;
  worker.epoch = view->ring.epoch();
  for (const auto& [id, info] : view->workers) {
    if (info.address == address) worker.id = options.worker = id;
  }
  options.supports_batches = together > 1;
  options.read_batcher.batch_reads_max = together;
  worker.client = must(PeerClient::make(options, worker.signer, executor), "worker");
  return worker;
}

// Returns the objects of one directory of the mount.
inline std::vector<SourceObject> objects_in(const WorkerEndpoint& worker,
                                            const std::string& directory, Executor& executor) {
  PeerList list{.mount = worker.mount.path,
                .store = worker.mount.store,
                .prefix = worker.mount.prefix + directory,
                .age_max = std::chrono::hours(1),
                .route = {.epoch = worker.epoch}};
  std::vector<SourceObject> objects;
  do {
    auto reply = executor.block_on(worker.client->list(for_a_while(), list));
    ListPage page = must(std::move(reply.result), "listing");
    for (SourceObject& one : page.objects) {
      if (one.kind == FileKind::kFile) objects.push_back(std::move(one));
    }
    list.token = page.next_token;
  } while (!list.token.empty());
  if (objects.empty()) raw::fail("there are no files in " + list.prefix);
  return objects;
}

inline PeerReadRequest read_of(const WorkerEndpoint& worker, const SourceObject& object,
                               ByteRange range) {
  return {.mount = worker.mount.path,
          .file = FileRef::make(worker.mount.store, object.key, object.version, object.size),
          .range = range,
          .header = {.epoch = worker.epoch}};
}

// As PeerClient sends it.
inline HttpRequest signed_request(const WorkerEndpoint& worker, const PeerReadRequest& read) {
  HttpRequest request = to_http(read);
  if (!worker.id.is_zero()) request.headers.set(kToField, worker.id.to_hex());
  request.target = make_target(request.path, request.query);
  worker.signer->sign(request);
  return request;
}

inline std::string text_of(const WorkerEndpoint& worker, const HttpRequest& request) {
  std::string text =
      request.method + " " + request.target + " HTTP/1.1\r\nHost: " + worker.address + "\r\n";
  for (const auto& [name, value] : request.headers.all()) text += name + ": " + value + "\r\n";
  return text + "\r\n";
}

// Returns the file of verifiable_content.h: its bytes encode the name below the mount.
inline uint64_t content_file(const WorkerEndpoint& worker, const SourceObject& object) {
  return verifiable::file_of(std::string_view(object.key).substr(worker.mount.prefix.size()));
}

}  // namespace leat
