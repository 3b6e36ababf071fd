// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cluster/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>
#include <system_error>

#include "base/base64.h"
#include "http/client.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {
namespace {

constexpr auto kAnswer = std::chrono::seconds(1);
constexpr auto kUserAnswer = std::chrono::seconds(30);  // etcd hashes passwords slowly

bool can_execute(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the path where tools/setup unpacks it (CONTRIBUTING.md).
std::string of_the_tests() {
  std::string dependencies = variable("LEAT_DEPS_DIR");
  if (dependencies.empty()) {
    std::string caches = variable("XDG_CACHE_HOME");
    if (caches.empty()) caches = variable("HOME") + "/.cache";
    dependencies = caches + "/leat-build";
  }
  return dependencies + "/etcd/usr/bin/etcd";
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

using Json = nlohmann::json;

// Sends requests to etcd's gateway, one after the other.
class Questions {
 public:
  explicit Questions(int port) : client_(endpoint_of(port)) {}

  Result<HttpResponse> ask(HttpRequest request, Clock::duration patience) {
    const auto context = Context::background().with_timeout(patience);
    return executor_.block_on(client_.request(context, std::move(request)));
  }
  // An existing entry is no failure if `there` says so.
  Result<> set(const std::string& path, const Json& document, bool* there = nullptr) {
    HttpRequest request{.method = "POST", .path = "/v3/auth/" + path, .body = document.dump()};
    LEAT_TRY(const HttpResponse answer, ask(std::move(request), kUserAnswer));
    if (answer.status == 200) return {};
    if (there != nullptr && answer.body.contains("already")) {
      *there = true;
      return {};
    }
    return error(StatusCode::kUnavailable,
                 fmt::format("etcd takes no users: {} {}", answer.status, answer.body));
  }

 private:
  static HttpEndpoint endpoint_of(int port) {
    HttpEndpoint endpoint;
    endpoint.host = "127.0.0.1";
    endpoint.port = static_cast<uint16_t>(port);
    return endpoint;
  }

  Executor executor_{{.threads = 1, .blocking_threads = 1}};
  const HttpClient client_;
};

struct FreePort {
  File socket;  // reserves it
  int port = 0;
};

Result<FreePort> take_port() {
  FreePort taken{File(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(taken.socket.fd(), generic, size) != 0 ||
      ::getsockname(taken.socket.fd(), generic, &size) != 0) {
    return error(status_from_errno(errno, "cannot find a free port on loopback"));
  }
  taken.port = ntohs(address.sin_port);
  return taken;
}

}  // namespace

Result<std::string> find_etcd() {
  if (const std::string named = variable("LEAT_ETCD"); !named.empty()) {
    if (can_execute(named)) return named;
    return error(StatusCode::kNotFound,
                 fmt::format("LEAT_ETCD names {}, which is no program", named));
  }
  for (auto part : std::views::split(variable("PATH"), ':')) {
    const std::string program = std::string(part.begin(), part.end()) + "/etcd";
    if (can_execute(program)) return program;
  }
  if (can_execute(of_the_tests())) return of_the_tests();
  return error(StatusCode::kNotFound,
               "there is no etcd, which keeps a cluster's registry; 'apt-get install etcd-server' "
               "installs one, LEAT_ETCD=/PATH/etcd names one, and '--registry file' does without "
               "for a single worker");
}

Result<EtcdProcess> EtcdProcess::start(const std::string& program, const std::string& directory) {
  EtcdProcess etcd;
  etcd.responded_marker = directory + "/answered";
  etcd.users_marker = directory + "/users";
  if (std::error_code failed; ::access(etcd.responded_marker.c_str(), F_OK) != 0) {
    const std::string data = directory + "/data";
    std::filesystem::remove_all(data, failed);
    if (failed) return error(status_from_errno(failed.value(), "cannot remove " + data));
    std::filesystem::remove(etcd.users_marker, failed);
  }
  std::string peers;
  {
    LEAT_TRY(const FreePort clients, take_port());
    LEAT_TRY(const FreePort others, take_port());
    etcd.port = clients.port;
    etcd.url = fmt::format("http://127.0.0.1:{}", clients.port);
    peers = fmt::format("http://127.0.0.1:{}", others.port);
  }
  // etcd exits if a variable repeats one of its flags. Without ETCD_UNSUPPORTED_ARCH it does not
  // start on ARM.
  std::vector<std::string> environment = child_environment({"ETCD_"});
  if (const std::string arch = variable("ETCD_UNSUPPORTED_ARCH"); !arch.empty()) {
    environment.push_back("ETCD_UNSUPPORTED_ARCH=" + arch);
  }
  ChildStart child{.name = "etcd",
                   .executable = program,
                   .arguments = {"etcd",
                                 "--name",
                                 "m0",
                                 "--data-dir",
                                 directory + "/data",
                                 "--listen-client-urls",
                                 etcd.url,
                                 "--advertise-client-urls",
                                 etcd.url,
                                 "--listen-peer-urls",
                                 peers,
                                 "--initial-advertise-peer-urls",
                                 peers,
                                 "--initial-cluster",
                                 "m0=" + peers,
                                 "--auto-compaction-retention",
                                 "1h",
                                 "--logger",
                                 "zap",
                                 "--log-level",
                                 "error"},
                   .environment = std::move(environment),
                   .log = directory + "/etcd.log"};
  LEAT_TRY(etcd.process, ChildProcess::start(child));
  return etcd;
}

bool EtcdProcess::responds() {
  const auto answer = Questions(port).ask({.method = "GET", .path = "/health"}, kAnswer);
  if (!answer || answer->status != 200) return false;
  return static_cast<bool>(
      File(::open(responded_marker.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
}

Result<> EtcdProcess::require_users(const std::string& password) {
  if (::access(users_marker.c_str(), F_OK) == 0) return {};
  Questions etcd(port);
  for (const char* user : {"root", kUser}) {
    const Json named = {{"name", user}, {"password", password}};
    bool there = false;
    LEAT_CHECK_OK(etcd.set("user/add", named, &there));
    // It may be left from an interrupted start, or from another user.
    if (there) LEAT_CHECK_OK(etcd.set("user/changepw", named));
    LEAT_CHECK_OK(etcd.set("role/add", {{"name", user}}, &there));
    LEAT_CHECK_OK(etcd.set("user/grant", {{"user", user}, {"role", user}}, &there));
  }
  const std::string first(1, '\0');
  const Json all = {
      {"permType", "READWRITE"}, {"key", base64(first)}, {"range_end", base64(first)}};
  LEAT_CHECK_OK(etcd.set("role/grant", {{"name", kUser}, {"perm", all}}));
  LEAT_CHECK_OK(etcd.set("enable", Json::object()));
  if (File(::open(users_marker.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600))) return {};
  return error(status_from_errno(errno, "cannot make " + users_marker));
}

}  // namespace leat
