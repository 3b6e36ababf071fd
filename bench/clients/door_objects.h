// SPDX-License-Identifier: Apache-2.0
// The objects of a cluster's mount as one worker lists them, and signed requests for ranges of
// them.
#pragma once

#include <string>
#include <vector>

#include "peer/peer_client.h"
#include "peer/read_request.h"
#include "raw_asker.h"

namespace leat {

struct Door {
  std::string address{};
  std::shared_ptr<RequestSigner> signer{};
  std::shared_ptr<PeerClient> client{};
  std::shared_ptr<const HttpTls> tls{};
  ClusterMount mount{};
  WorkerId worker{};
  int64_t epoch = 0;
};

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) asker::fail(std::string(what) + ": " + result.error().to_string());
  return *std::move(result);
}

inline Context for_a_while() {
  return Context::background().with_timeout(std::chrono::seconds(30));
}

// `certificates`: none, or the files of CA, certificate and key. `together`: so many small reads go
// in one request.
inline Door open_door(const std::string& address, const std::string& token_file,
                      const std::string& mount, const std::vector<std::string>& certificates,
                      Executor& executor, size_t together = 1) {
  Door door{.address = address};
  door.signer = std::make_shared<RequestSigner>(must(Token::read(token_file), "token"));
  if (certificates.size() == 3) {
    HttpTlsOptions files{.ca_file = certificates[0],
                         .certificate_file = certificates[1],
                         .key_file = certificates[2]};
    door.tls = must(HttpTls::load(files), "certificates");
  }
  PeerClientOptions options{.address = address, .tls = door.tls};
  const auto anybody = must(PeerClient::make(options, door.signer, executor), "worker");
  const ClusterViewPtr view = must(executor.wait(anybody->view(for_a_while(), 0)), "view");
  const auto found = view->mounts.find(mount);
  if (found == view->mounts.end()) asker::fail("nothing is mounted at " + mount);
  door.mount = found->second;
  door.epoch = view->ring.epoch();
  for (const auto& [id, info] : view->workers) {
    if (info.address == address) door.worker = options.worker = id;
  }
  options.batches = together > 1;
  options.small_reads.together_max = together;
  door.client = must(PeerClient::make(options, door.signer, executor), "worker");
  return door;
}

// Of one directory of the mount.
inline std::vector<SourceObject> objects_in(const Door& door, const std::string& directory,
                                            Executor& executor) {
  PeerList list{.mount = door.mount.path,
                .store = door.mount.store,
                .prefix = door.mount.prefix + directory,
                .age_max = std::chrono::hours(1),
                .route = {.epoch = door.epoch}};
  std::vector<SourceObject> objects;
  do {
    auto reply = executor.wait(door.client->list(for_a_while(), list));
    ListPage page = must(std::move(reply.result), "listing");
    for (SourceObject& one : page.objects) {
      if (one.kind == FileKind::kFile) objects.push_back(std::move(one));
    }
    list.token = page.next_token;
  } while (!list.token.empty());
  if (objects.empty()) asker::fail("there are no files in " + list.prefix);
  return objects;
}

inline PeerReadRequest read_of(const Door& door, const SourceObject& object, ByteRange range) {
  return {.mount = door.mount.path,
          .file = FileRef::make(door.mount.store, object.key, object.version, object.size),
          .range = range,
          .terms = {.epoch = door.epoch}};
}

// As PeerClient sends it.
inline HttpRequest signed_request(const Door& door, const PeerReadRequest& read) {
  HttpRequest request = to_http(read);
  if (!door.worker.is_zero()) request.headers.set(kToField, door.worker.to_hex());
  request.target = make_target(request.path, request.query);
  door.signer->sign(request);
  return request;
}

inline std::string text_of(const Door& door, const HttpRequest& request) {
  std::string text =
      request.method + " " + request.target + " HTTP/1.1\r\nHost: " + door.address + "\r\n";
  for (const auto& [name, value] : request.headers.all()) text += name + ": " + value + "\r\n";
  return text + "\r\n";
}

// By its name below the mount, which is what its bytes tell of.
inline uint64_t told_file(const Door& door, const SourceObject& object) {
  return told::file_of(std::string_view(object.key).substr(door.mount.prefix.size()));
}

}  // namespace leat
