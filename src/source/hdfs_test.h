// SPDX-License-Identifier: Apache-2.0
// HdfsCluster: a real HDFS (Hadoop's name node and one data node) on loopback, over WebHDFS and
// over Hadoop's own protocol. It takes seconds to start, so a test program has one for all its
// tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "runtime/server_process_test.h"

namespace leat::testing {

class HdfsCluster {
 public:
  static constexpr char kHowToGetIt[] = "HDFS is not installed; run tools/setup test";
  // Maximum entries of one response to LISTSTATUS_BATCH (dfs.ls.limit).
  static constexpr int kPageEntries = 7;

  // Returns the cluster of this program, which ends with it; each test uses its own directory.
  // Returns null if it does not start.
  static std::shared_ptr<HdfsCluster> start() {
    static std::shared_ptr<HdfsCluster> shared = [] {
      auto cluster = std::shared_ptr<HdfsCluster>(new HdfsCluster());
      return cluster->launch() ? cluster : nullptr;
    }();
    return shared;
  }

  // Starts another cluster, with permissions: it trusts the client's user name and grants that
  // user's rights. Ends with its last reference.
  static std::shared_ptr<HdfsCluster> start_guarded() {
    auto cluster = std::shared_ptr<HdfsCluster>(new HdfsCluster());
    cluster->guarded_ = true;
    return cluster->launch() ? cluster : nullptr;
  }

  // WebHDFS endpoint. The cluster trusts the client's user name and permits everything.
  std::string endpoint() const { return process_.endpoint(); }
  // Hadoop's own protocol.
  std::string rpc_endpoint() const { return "hdfs://127.0.0.1:" + std::to_string(rpc_port_); }

  // Stores a file by curl; fails the test if the cluster rejects it.
  void put(const std::string& key, std::string_view content) const {
    curl({"-L", "-T", process_.upload(content), url(key, "CREATE&overwrite=true")});
  }

  std::string url(const std::string& key, const std::string& operation) const {
    return endpoint() + "/webhdfs/v1/" + percent_encoded(key) + "?user.name=" + kOwner +
           "&op=" + operation;
  }
  // Mode such as "700" of a file or directory.
  void set_mode(const std::string& key, const std::string& mode) const {
    curl({"-X", "PUT", url(key, "SETPERMISSION&permission=" + mode)});
  }

 private:
  bool launch() {
    std::filesystem::path installed = LEAT_DEPS_DIR "/hdfs", home = process_.folder();
    std::string java = find_program("LEAT_JAVA", "hdfs/java");
    if (java.empty() || !std::filesystem::exists(installed / "name")) return false;
    std::filesystem::copy(installed / "name", home / "name",
                          std::filesystem::copy_options::recursive);
    std::ofstream(home / "core-site.xml") << configuration();
    std::ofstream(home / "hdfs-site.xml") << configuration();
    std::string folders = installed.string();
    return process_.launch({"/bin/sh", "-c", kBothNodes, java,
                            home.string() + ":" + folders + ":" + folders + "/lib/*"},
                           {std::string("HADOOP_USER_NAME=") + kOwner}, kStartLimit_s) &&
           process_.wait_until([this] { return takes_files(); }, kStartLimit_s, 100);
  }

  // The name node's port opens long before a data node has registered and reported its free space.
  // A request for a file's location, which creates no file, shows when it is ready.
  bool takes_files() const {
    return run_program({"curl", "-s", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}",
                        "-X", "PUT", url("probe", "CREATE&noredirect=true")})
               .output == "200";
  }

  // The data node chooses its own ports and reports them to the name node.
  std::string configuration() const {
    std::string home = process_.folder().string();
    const std::pair<const char*, std::string> properties[] = {
        {"fs.defaultFS", rpc_endpoint()},
        {"dfs.namenode.http-address", process_.address()},
        {"dfs.namenode.name.dir", home + "/name"},
        {"dfs.datanode.data.dir", home + "/blocks"},
        {"dfs.datanode.address", "127.0.0.1:0"},
        {"dfs.datanode.http.address", "127.0.0.1:0"},
        {"dfs.datanode.ipc.address", "127.0.0.1:0"},
        {"dfs.datanode.hostname", "127.0.0.1"},
        {"dfs.namenode.datanode.registration.ip-hostname-check", "false"},
        {"dfs.namenode.edits.noeditlogchannelflush", "true"},
        {"dfs.namenode.safemode.extension", "0"},
        {"dfs.permissions.enabled", guarded_ ? "true" : "false"},
        {"dfs.replication", "1"},
        {"dfs.ls.limit", std::to_string(kPageEntries)},
        {"hadoop.tmp.dir", home + "/tmp"},
    };
    std::string text = "<configuration>\n";
    for (const auto& [name, value] : properties) {
      text += std::string("<property><name>") + name + "</name><value>" + value +
              "</value></property>\n";
    }
    return text + "</configuration>\n";
  }

  // $0 is the Java binary, $1 the class path. Options for a quick start: no second compiler.
  static constexpr char kBothNodes[] = R"(
    node() {
      "$java" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -cp "$classes" \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=error "org.apache.hadoop.hdfs.server.$1"
    }
    java=$0 classes=$1
    node namenode.NameNode & node datanode.DataNode & wait)";
  static constexpr int kStartLimit_s = 120;
  static constexpr char kOwner[] = "hdfs";  // the user with all rights

  bool guarded_ = false;
  ServerProcess process_{"hdfs"};
  uint16_t rpc_port_ = ServerProcess::free_port();
};

}  // namespace leat::testing
