// SPDX-License-Identifier: Apache-2.0
// VersityGateway: a real S3 server (versitygw, posix backend) on loopback for the life of the
// object.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/server_process_test.h"

namespace leat::testing {

class VersityGateway {
 public:
  static constexpr char kAccessKey[] = "leat-test";
  static constexpr char kSecretKey[] = "leat-test-secret";

  // Empty if it is not installed; the test must then fail, since nothing else verifies signatures.
  static std::string binary() { return find_program("LEAT_VERSITYGW", "bin/versitygw"); }
  static constexpr char kHowToGetIt[] =
      "versitygw is not installed; run tools/setup, or name the binary in LEAT_VERSITYGW";

  // Has one empty bucket, "bucket". Returns null if the server does not start.
  static std::shared_ptr<VersityGateway> start() {
    auto gateway = std::shared_ptr<VersityGateway>(new VersityGateway());
    return gateway->launch(binary()) ? gateway : nullptr;
  }

  std::string endpoint() const { return process_.endpoint(); }
  // The directory with the objects of "bucket" as files.
  std::filesystem::path bucket_folder() const { return process_.folder() / "data" / "bucket"; }

 private:
  VersityGateway() { std::filesystem::create_directories(bucket_folder()); }

  bool launch(const std::string& program) {
    return process_.launch(
        {program, "--port", process_.address(), "--quiet", "--keep-alive", "--region", "us-east-1",
         "posix", (process_.folder() / "data").string()},
        {std::string("ROOT_ACCESS_KEY=") + kAccessKey,
         std::string("ROOT_SECRET_KEY=") + kSecretKey});
  }

  ServerProcess process_{"gw"};
};

}  // namespace leat::testing
