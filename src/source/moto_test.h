// SPDX-License-Identifier: Apache-2.0
// MotoServer: moto's S3 server on loopback for the life of the object. Unlike versitygw it has flat
// keys (`a` beside `a/b`) and object versions. It requires a signature but does not verify it.
#pragma once

#include <memory>
#include <string>

#include "runtime/server_process_test.h"

namespace leat::testing {

class MotoServer {
 public:
  static constexpr char kAccessKey[] = "leat-test";
  static constexpr char kSecretKey[] = "leat-test-secret";
  static constexpr char kBucket[] = "bucket";
  static constexpr char kHowToGetIt[] =
      "moto_server is not installed; run tools/setup test, or name the program in LEAT_MOTO";

  // Has one empty bucket, "bucket". Returns null if the server does not start.
  static std::shared_ptr<MotoServer> start() {
    auto server = std::shared_ptr<MotoServer>(new MotoServer());
    return server->launch() ? server : nullptr;
  }

  std::string endpoint() const { return process_.endpoint(); }

  // Stores an object by curl; fails the test if the server rejects it.
  void put(const std::string& key, std::string_view content, Command arguments = {}) const {
    arguments.insert(arguments.end(), {"-T", process_.upload(content)});
    ask(key, std::move(arguments));
  }

  // Returns the body of curl's response for a key, or for the bucket if the key is empty.
  std::string ask(const std::string& key, Command arguments = {}) const {
    arguments.insert(arguments.end(), {"--aws-sigv4", "aws:amz:us-east-1:s3", "--user",
                                       std::string(kAccessKey) + ":" + kSecretKey,
                                       endpoint() + "/" + kBucket + "/" + percent_encoded(key)});
    return curl(std::move(arguments));
  }

 private:
  bool launch() {
    std::string program = find_program("LEAT_MOTO", "moto/bin/moto_server");
    if (program.empty() ||
        !process_.launch({program, "-H", "127.0.0.1", "-p", std::to_string(process_.port())})) {
      return false;
    }
    ask("", {"-X", "PUT"});
    return true;
  }

  ServerProcess process_{"moto"};
};

}  // namespace leat::testing
