// SPDX-License-Identifier: Apache-2.0
// FakeGcsServer: a Google Cloud Storage server (fake-gcs-server, in memory) on loopback for the
// life of the object. It accepts requests with any credentials or none.
#pragma once

#include <memory>
#include <string>

#include "runtime/server_process_test.h"

namespace leat::testing {

class FakeGcsServer {
 public:
  static constexpr char kBucket[] = "bucket";
  static constexpr char kHowToGetIt[] =
      "fake-gcs-server is not installed; run tools/setup test, or name the binary in LEAT_FAKE_GCS";

  // Has one empty bucket, "bucket". Returns null if the server does not start.
  static std::shared_ptr<FakeGcsServer> start() {
    auto server = std::shared_ptr<FakeGcsServer>(new FakeGcsServer());
    return server->launch() ? server : nullptr;
  }

  std::string endpoint() const { return process_.endpoint(); }

  // Stores an object by curl; fails the test if the server rejects it. `query` is added to the
  // request's parameters.
  void put(const std::string& key, std::string_view content, const std::string& query = "") const {
    curl({"-X", "POST", "-H", "Content-Type: application/octet-stream", "--data-binary",
          "@" + process_.upload(content),
          endpoint() + "/upload/storage/v1/b/" + kBucket +
              "/o?uploadType=media&name=" + percent_encoded(key, "") + query});
  }

  // URL of that object's bytes in the JSON interface.
  std::string media_url(const std::string& key) const {
    return endpoint() + "/storage/v1/b/" + kBucket + "/o/" + percent_encoded(key, "") +
           "?alt=media";
  }

 private:
  bool launch() {
    std::string program = find_program("LEAT_FAKE_GCS", "bin/fake-gcs-server");
    if (program.empty()) return false;
    if (!process_.launch({program, "-scheme", "http", "-host", "127.0.0.1", "-port",
                          std::to_string(process_.port()), "-backend", "memory", "-public-host",
                          process_.address(), "-external-url", process_.endpoint(), "-log-level",
                          "error", "-data", (process_.folder() / "none").string()})) {
      return false;
    }
    curl({"-H", "Content-Type: application/json", "-d", R"({"name":"bucket"})",
          endpoint() + "/storage/v1/b?project=leat"});
    return true;
  }

  ServerProcess process_{"gcs"};
};

}  // namespace leat::testing
