// SPDX-License-Identifier: Apache-2.0
// VersityGateway: a real S3 server (versitygw, posix backend) on loopback for the life of the
// object.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "base/check.h"
#include "base/id128.h"
#include "runtime/disk.h"

namespace leat::testing {

class VersityGateway {
 public:
  static constexpr char kAccessKey[] = "leat-test";
  static constexpr char kSecretKey[] = "leat-test-secret";

  // Empty when there is none; the test must then fail, since nothing else proves signatures.
  static std::string binary() {
    std::string path;
    if (const char* given = std::getenv("LEAT_VERSITYGW")) return given;
    path = LEAT_DEPS_DIR "/bin/versitygw";
    if (access(path.c_str(), X_OK) == 0) return path;
    std::istringstream folders(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      path = folder + "/versitygw";
      if (access(path.c_str(), X_OK) == 0) return path;
    }
    return "";
  }
  static constexpr char kHowToGetIt[] =
      "versitygw is not installed; run tools/setup, or name the binary in LEAT_VERSITYGW";

  // With one empty bucket, "bucket". Null when the server does not come up.
  static std::shared_ptr<VersityGateway> start() {
    auto gateway = std::shared_ptr<VersityGateway>(new VersityGateway());
    return gateway->launch(binary()) ? gateway : nullptr;
  }

  ~VersityGateway() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // Where the objects of "bucket" lie as files.
  std::filesystem::path bucket_folder() const { return folder_ / "bucket"; }

 private:
  VersityGateway()
      : folder_(std::filesystem::temp_directory_path() / ("leat-gw-" + Id128::random().to_hex())) {
    std::filesystem::create_directories(bucket_folder());
    port_ = free_port();
  }

  static uint16_t free_port() {
    File probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    LEAT_CHECK(bind(probe.fd(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    LEAT_CHECK(getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
  }

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  bool launch(const std::string& program) {
    std::string listen = "127.0.0.1:" + std::to_string(port_);
    std::string folder = folder_.string();
    pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      setenv("ROOT_ACCESS_KEY", kAccessKey, 1);
      setenv("ROOT_SECRET_KEY", kSecretKey, 1);
      execl(program.c_str(), program.c_str(), "--port", listen.c_str(), "--quiet", "--keep-alive",
            "--region", "us-east-1", "posix", folder.c_str(), nullptr);
      _exit(127);
    }
    return wait_until_it_answers();
  }

  // The server says nothing when it is ready, so its port is asked until it is open.
  bool wait_until_it_answers() const {
    for (int tries = 0; tries < 1000; ++tries) {
      File client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address = loopback(port_);
      if (connect(client.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        return true;
      }
      if (waitpid(process_, nullptr, WNOHANG) != 0) return false;
      poll(nullptr, 0, 10);
    }
    return false;
  }

  std::filesystem::path folder_;
  uint16_t port_ = 0;
  pid_t process_ = -1;
};

}  // namespace leat::testing
