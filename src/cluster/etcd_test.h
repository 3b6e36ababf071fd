// SPDX-License-Identifier: Apache-2.0
// EtcdServers: one or three members of a real etcd on loopback for the life of the object. One
// whose others are ended is what one is that was cut off: its clients reach it, and it has no
// leader.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/base64.h"
#include "cluster/etcd_codec.h"
#include "cluster/etcd_registry.h"
#include "runtime/server_process_test.h"

namespace leat::testing {

class EtcdServers {
 public:
  static constexpr char kHowToGetIt[] =
      "etcd is not there; run tools/setup test, or name the program in LEAT_ETCD";
  static constexpr char kUser[] = "leat";
  static constexpr char kPassword[] = "leat-test-password";
  static constexpr std::string_view kPrefix = "/leat/test/";

  // Null when they do not come up.
  static std::shared_ptr<EtcdServers> start(size_t members = 1) {
    auto servers = std::shared_ptr<EtcdServers>(new EtcdServers(members));
    for (size_t i = 0; i < members; ++i) {
      if (!servers->launch(i)) return nullptr;
    }
    return servers->wait_until_healthy() ? servers : nullptr;
  }

  size_t size() const { return members_.size(); }
  bool launch(size_t member) {
    const std::string program = find_program("LEAT_ETCD", "etcd/usr/bin/etcd");
    ServerProcess& process = *members_[member].process;
    const std::string peer = peer_url(member);
    return !program.empty() && process.launch({program,
                                               "--name",
                                               fmt::format("m{}", member),
                                               "--data-dir",
                                               process.folder() / "data",
                                               "--listen-client-urls",
                                               process.endpoint(),
                                               "--advertise-client-urls",
                                               process.endpoint(),
                                               "--listen-peer-urls",
                                               peer,
                                               "--initial-advertise-peer-urls",
                                               peer,
                                               "--initial-cluster",
                                               everybody(),
                                               "--logger",
                                               "zap",
                                               "--log-level",
                                               "error",
                                               "--heartbeat-interval",
                                               "50",
                                               "--election-timeout",
                                               "500"});
  }
  void end(size_t member) { members_[member].process->end(); }
  // As a backup does: what the only member holds now is there again after restore().
  bool back_up() { return exchange_data("data", "backup"); }
  bool restore() { return exchange_data("backup", "data"); }
  void send_signal(size_t member, int signal) { members_[member].process->send_signal(signal); }

  EtcdOptions options() const {
    EtcdOptions options{.prefix = std::string(kPrefix), .request_timeout = std::chrono::seconds(2)};
    for (const auto& member : members_) {
      options.endpoints.push_back({{}, "127.0.0.1", member.process->port()});
    }
    return options;
  }
  EtcdOptions options_of(size_t member) const {
    EtcdOptions one = options();
    one.endpoints = {one.endpoints[member]};
    return one;
  }

  // The body of the gateway's answer.
  std::string ask(const std::string& path, const std::string& body, size_t member = 0,
                  const std::string& token = {}) const {
    return curl(
        {"-d", body, "-H", "Authorization: " + token, members_[member].process->endpoint() + path});
  }

  // From then on etcd wants a user: root, and kUser for what is below kPrefix.
  void add_user() const {
    const std::string end =
        std::string(kPrefix.substr(0, kPrefix.size() - 1)) + "0";  // '0' follows '/'
    for (const char* user : {"root", kUser}) {
      ask("/v3/auth/user/add", fmt::format(R"({{"name":"{}","password":"{}"}})", user, kPassword));
      ask("/v3/auth/role/add", fmt::format(R"({{"name":"{}"}})", user));
      ask("/v3/auth/user/grant", fmt::format(R"({{"user":"{}","role":"{}"}})", user, user));
    }
    ask("/v3/auth/role/grant",
        fmt::format(
            R"({{"name":"{}","perm":{{"permType":"READWRITE","key":"{}","range_end":"{}"}}}})",
            kUser, base64(kPrefix), base64(end)));
    ask("/v3/auth/enable", "{}");
  }
  std::string root_token() const {
    const std::string answer = ask("/v3/auth/authenticate",
                                   fmt::format(R"({{"name":"root","password":"{}"}})", kPassword));
    auto token = etcd::login_answer(answer);
    EXPECT_TRUE(token) << answer;
    return token.value_or("");
  }

  bool wait_until_healthy() const {
    return members_[0].process->wait_until([this] {
      return run_program({"curl", "-sf", "-m", "2", "--noproxy", "*",
                          members_[0].process->endpoint() + "/health"})
          .output.contains("true");
    });
  }

  // The member that leads, by what it says itself.
  size_t leader() const {
    for (size_t i = 0; i < size(); ++i) {
      const std::string metrics = curl({members_[i].process->endpoint() + "/metrics"});
      if (metrics.contains("\netcd_server_is_leader 1")) return i;
    }
    ADD_FAILURE() << "no member leads";
    return 0;
  }

 private:
  struct Member {
    std::unique_ptr<ServerProcess> process;
    uint16_t peer_port = 0;
  };

  explicit EtcdServers(size_t count) : members_(count) {
    for (Member& member : members_) {
      member.process = std::make_unique<ServerProcess>("etcd");
      member.peer_port = ServerProcess::free_port();
    }
  }
  bool exchange_data(const char* from, const char* to) {
    end(0);
    const std::filesystem::path folder = members_[0].process->folder();
    std::filesystem::remove_all(folder / to);
    std::filesystem::copy(folder / from, folder / to, std::filesystem::copy_options::recursive);
    return launch(0) && wait_until_healthy();
  }
  std::string peer_url(size_t member) const {
    return fmt::format("http://127.0.0.1:{}", members_[member].peer_port);
  }
  std::string everybody() const {
    std::string all;
    for (size_t i = 0; i < size(); ++i) {
      all += fmt::format("{}m{}={}", i == 0 ? "" : ",", i, peer_url(i));
    }
    return all;
  }

  std::vector<Member> members_;
};

}  // namespace leat::testing
