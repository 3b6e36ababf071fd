// SPDX-License-Identifier: Apache-2.0
// SftpServer: a real SFTP server (OpenSSH's sshd, with its own keys and configuration, as an
// ordinary process) over a directory, on loopback for the life of the object. It does not affect
// the machine's own sshd.
#pragma once

#include <pwd.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/server_process_test.h"

namespace leat::testing {

class SftpServer {
 public:
  static constexpr char kHowToGetIt[] =
      "sshd or ssh-keygen is not installed; run tools/setup test, or name sshd in LEAT_SSHD";

  // Serves an empty directory. Returns null if the server does not start.
  static std::shared_ptr<SftpServer> start() {
    auto server = std::shared_ptr<SftpServer>(new SftpServer());
    return server->launch() ? server : nullptr;
  }

  ~SftpServer() { end_clients(); }

  std::string endpoint() const { return "ssh://" + process_.address(); }
  std::string port() const { return std::to_string(process_.port()); }
  // The user that may log in, its key, and the host key that the server presents.
  const std::string& user() const { return user_; }
  std::string key_file() const { return process_.folder() / "client_key"; }
  std::string known_hosts_file() const { return process_.folder() / "known_hosts"; }
  // The served directory: an absolute path, since clients begin in it but see the whole machine.
  std::filesystem::path folder() const { return process_.folder() / "data"; }

  void put(const std::string& key, std::string_view content) const {
    put_file(folder(), key, content);
  }

  // The options for OpenSSH's own clients.
  Command client_options() const {
    return {"-F", "none",
            "-i", key_file(),
            "-o", "Port=" + port(),
            "-o", "User=" + user_,
            "-o", "UserKnownHostsFile=" + known_hosts_file(),
            "-o", "BatchMode=yes"};
  }

 private:
  // An sshd of root needs a system user and a system directory of Debian's package. For another
  // user it serves only that user and needs neither. So root's is started as `daemon`, which every
  // Debian has; sshd considers `nobody` locked where systemd manages it.
  SftpServer() : is_root_(geteuid() == 0) {
    std::filesystem::create_directories(folder());
    const passwd* user = is_root_ ? getpwnam("daemon") : getpwuid(geteuid());
    LEAT_CHECK(user != nullptr);
    user_ = user->pw_name;
    uid_ = user->pw_uid;
    gid_ = user->pw_gid;
  }

  bool launch() {
    std::string program = find_program("LEAT_SSHD", "sshd/usr/sbin/sshd");
    if (program.empty() || !make_key("client_key") || !make_key("host_key")) return false;
    const std::filesystem::path& home = process_.folder();
    std::filesystem::copy_file(home / "client_key.pub", home / "authorized_keys");
    std::ifstream host_key(home / "host_key.pub");
    std::ofstream(known_hosts_file())
        << "[127.0.0.1]:" << port() << " " << host_key.rdbuf() << std::flush;
    std::ofstream(home / "sshd_config") << config();
    // A copy, since `daemon` may not read root's cache; sshd re-executes itself by its path.
    std::filesystem::copy_file(program, home / "sshd");
    Command command = {home / "sshd", "-D", "-e", "-f", home / "sshd_config"};
    if (is_root_) {
      for (const char* name : {"", "data", "host_key"}) {
        LEAT_CHECK(chown((home / name).c_str(), uid_, gid_) == 0);
      }
      command.insert(command.begin(), {"setpriv", "--reuid", std::to_string(uid_), "--regid",
                                       std::to_string(gid_), "--clear-groups"});
    }
    return process_.launch(command);
  }

  // A client that was abandoned while it connected leaves a master behind. It keeps a connection
  // open as long as both processes live, and the server's end is not in our process group.
  void end_clients() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid == 0) continue;
      std::ifstream file(entry.path() / "cmdline");
      std::vector<std::string> words;
      for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
      if (words.empty() || words[0] != "ssh" ||
          std::ranges::find(words, key_file()) == words.end()) {
        continue;
      }
      kill(pid, SIGKILL);
      auto socket = std::ranges::find(words, "-S");
      if (socket == words.end() || ++socket == words.end()) continue;
      std::error_code gone;
      std::filesystem::remove_all(std::filesystem::path(*socket).parent_path(), gone);
    }
  }

  bool make_key(const char* name) const {
    return run_program({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "leat-test", "-f",
                        process_.folder() / name})
               .status == 0;
  }

  std::string config() const {
    std::string home = process_.folder().string();
    return "ListenAddress 127.0.0.1\nPort " + port() + "\nHostKey " + home +
           "/host_key\nAuthorizedKeysFile " + home + "/authorized_keys\nAllowUsers " + user_ +
           "\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
           "KbdInteractiveAuthentication no\nUseDNS no\nMaxStartups 100\nMaxSessions 100\n"
           "DisableForwarding yes\nPrintMotd no\nLogLevel ERROR\nSubsystem sftp internal-sftp\n"
           "ForceCommand internal-sftp -d " +
           home + "/data\n";
  }

  ServerProcess process_{"sftp"};
  bool is_root_;
  std::string user_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
};

}  // namespace leat::testing
