// SPDX-License-Identifier: Apache-2.0
// EtcdServers: one or three members of a real etcd on loopback during the object's lifetime. If the
// others are ended, a member behaves as if cut off: clients reach it, and it has no leader. Members
// connect to each other without TLS.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/base64.h"
#include "cluster/etcd_codec.h"
#include "cluster/etcd_registry.h"
#include "cluster/wait_until_test.h"
#include "http/certificates_test.h"
#include "runtime/server_process_test.h"

namespace leat::testing {

class EtcdServers {
 public:
  static constexpr char kHowToGetIt[] =
      "etcd is not there; run tools/setup test, or name the program in LEAT_ETCD";
  static constexpr char kUser[] = "leat";
  static constexpr char kPassword[] = "leat-test-password";
  static constexpr std::string_view kPrefix = "/leat/test/";
  // Longer than any machine takes; tests that must detect a hanging member use less.
  static constexpr auto kRequestTimeout = std::chrono::seconds(20);

  // Transport of clients; with TLS both sides authenticate.
  enum class Transport : uint8_t { kClear, kTls };

  // Returns null if the members do not start.
  static std::shared_ptr<EtcdServers> start(size_t members = 1,
                                            Transport transport = Transport::kClear) {
    auto servers = std::shared_ptr<EtcdServers>(new EtcdServers(members, transport));
    for (size_t i = 0; i < members; ++i) {
      if (!servers->launch(i)) return nullptr;
    }
    return servers->wait_until_healthy() ? servers : nullptr;
  }

  size_t size() const { return members_.size(); }
  bool launch(size_t member) {
    const std::string program = find_program("LEAT_ETCD", "etcd/usr/bin/etcd");
    ServerProcess& process = *members_[member].process;
    const std::string peer = peer_url(member), client = client_url(member);
    Command command = {program,
                       "--name",
                       fmt::format("m{}", member),
                       "--data-dir",
                       process.folder() / "data",
                       "--listen-client-urls",
                       client,
                       "--advertise-client-urls",
                       client,
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
                       "500"};
    if (certificates_) {
      const HttpTlsOptions& own = members_tls_;
      command.insert(command.end(),
                     {"--cert-file", own.certificate_file, "--key-file", own.key_file,
                      "--trusted-ca-file", certificates_->ca(), "--client-cert-auth"});
    }
    return !program.empty() && process.launch(command);
  }
  void end(size_t member) { members_[member].process->end(); }
  // Simulates a backup of the only member; restore() returns to its state.
  bool back_up() { return exchange_data("data", "backup"); }
  bool restore() { return exchange_data("backup", "data"); }
  void send_signal(size_t member, int signal) { members_[member].process->send_signal(signal); }

  EtcdOptions options(Clock::duration request_timeout = kRequestTimeout) const {
    EtcdOptions options{.prefix = std::string(kPrefix), .request_timeout = request_timeout};
    for (const auto& member : members_) {
      options.endpoints.push_back({{}, "127.0.0.1", member.process->port()});
    }
    if (certificates_) options.tls = load(clients_tls_);
    return options;
  }
  EtcdOptions options_of(size_t member, Clock::duration request_timeout = kRequestTimeout) const {
    EtcdOptions one = options(request_timeout);
    one.endpoints = {one.endpoints[member]};
    return one;
  }

  // CA of the members' and clients' certificates; null without TLS.
  const Certificates* certificates() const { return certificates_.get(); }
  // TLS configuration of a client with these files.
  static std::shared_ptr<const HttpTls> load(const HttpTlsOptions& files) {
    auto loaded = HttpTls::load(files);
    EXPECT_TRUE(loaded) << loaded.error().to_string();
    return loaded.value_or(nullptr);
  }

  // Returns the body of the gateway's answer.
  std::string ask(const std::string& path, const std::string& body, size_t member = 0,
                  const std::string& token = {}) const {
    return curl(
        with_certificate({"-d", body, "-H", "Authorization: " + token, client_url(member) + path}));
  }
  // After this no watch can begin before `revision`.
  void compact(RegistryRevision revision, size_t member = 0, const std::string& token = {}) const {
    ask("/v3/kv/compaction", fmt::format(R"({{"revision":"{}"}})", revision), member, token);
  }

  // After this etcd requires a user: root, and kUser for keys below kPrefix.
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

  bool wait_until_healthy(size_t member = 0) const {
    return members_[member].process->wait_until([this, member] {
      Command command = {"curl", "-sf", "-m", "2", "--noproxy", "*"};
      std::ranges::copy(with_certificate({client_url(member) + "/health"}),
                        std::back_inserter(command));
      return run_program(command).output.contains("true");
    });
  }

  // Returns the member's metrics: a line "NAME VALUE" each.
  std::string metrics(size_t member = 0) const {
    return curl(with_certificate({client_url(member) + "/metrics"}));
  }
  // Returns the member that reports itself as leader.
  size_t leader() const {
    std::optional<size_t> leader;
    EXPECT_TRUE(wait_until([&] {
      for (size_t i = 0; i < size() && !leader; ++i) {
        if (metrics(i).contains("\netcd_server_is_leader 1")) leader = i;
      }
      return leader.has_value();
    })) << "no member leads";
    return leader.value_or(0);
  }

 private:
  struct Member {
    std::unique_ptr<ServerProcess> process;
    uint16_t peer_port = 0;
  };

  EtcdServers(size_t count, Transport transport) : members_(count) {
    for (Member& member : members_) {
      member.process = std::make_unique<ServerProcess>("etcd");
      member.peer_port = ServerProcess::free_port();
    }
    if (transport == Transport::kClear) return;
    certificates_ = std::make_unique<Certificates>();
    // A member's gateway connects to the member with the member's certificate.
    members_tls_ = certificates_->issue({.name = "etcd"});
    clients_tls_ = certificates_->issue({.name = kUser, .alternatives = ""});
    clients_tls_.ca_file = certificates_->ca();
  }
  bool exchange_data(const char* from, const char* to) {
    end(0);
    const std::filesystem::path folder = members_[0].process->folder();
    std::filesystem::remove_all(folder / to);
    std::filesystem::copy(folder / from, folder / to, std::filesystem::copy_options::recursive);
    return launch(0) && wait_until_healthy();
  }
  std::string client_url(size_t member) const {
    return (certificates_ ? "https://" : "http://") + members_[member].process->address();
  }
  Command with_certificate(Command curl_arguments) const {
    if (certificates_) {
      curl_arguments.insert(curl_arguments.begin(),
                            {"--cacert", clients_tls_.ca_file, "--cert",
                             clients_tls_.certificate_file, "--key", clients_tls_.key_file});
    }
    return curl_arguments;
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

  std::unique_ptr<Certificates> certificates_;  // null without TLS
  HttpTlsOptions members_tls_;
  HttpTlsOptions clients_tls_;
  std::vector<Member> members_;  // last: the processes read their certificates until their end
};

}  // namespace leat::testing
