// SPDX-License-Identifier: Apache-2.0
// Buckets of all kinds of sources, filled by tests that run the same checks on each.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "runtime/executor.h"
#include "source/azurite_test.h"
#include "source/fake_gcs_test.h"
#include "source/fake_hub_test.h"
#include "source/file/file_source.h"
#include "source/hdfs_test.h"
#include "source/memory_source_test.h"
#include "source/moto_test.h"
#include "source/nginx_test.h"
#include "source/python_server_test.h"
#include "source/retry/retrying_source.h"
#include "source/sftp_test.h"
#include "source/stores/opendal_source.h"
#include "source/versitygw_test.h"

namespace leat::testing {

namespace fs = std::filesystem;

// A bucket to be filled, with small pages so that paging is always tested.
class Bucket {
 public:
  explicit Bucket(Executor& executor) : executor_(executor) {}
  virtual ~Bucket() = default;
  virtual Source& source() = 0;
  // Capabilities in the contract: pages as small as kPageEntries, of levels and of whole trees.
  virtual bool has_small_levels() const { return true; }
  virtual bool has_small_trees() const { return true; }
  // Names of the contract that it can hold.
  virtual bool takes(const std::string&) const { return true; }
  // Names that it holds and also lists.
  virtual bool lists(const std::string& name) const { return takes(name); }
  // Objects have a version and a time.
  virtual bool has_versions() const { return true; }
  // Its server supports multipart uploads.
  virtual bool takes_parts() const { return true; }
  // Prefix of every key of this bucket.
  virtual std::string root() const { return ""; }
  virtual void put(const std::string& key, const std::string& content) = 0;

  static constexpr size_t kPageEntries = 7;

 protected:
  Executor& executor_;
};

class FileBucket : public Bucket {
 public:
  explicit FileBucket(Executor& executor, FileAccess access = FileAccess::kByFileSystem)
      : Bucket(executor),
        folder_(fs::temp_directory_path() / ("leat-files-" + Id128::random().to_hex())),
        source_({}, kPageEntries, access) {
    fs::create_directories(folder_);
  }
  ~FileBucket() override {
    // A dropped writer removes its file synchronously.
    std::error_code taken;
    do {
      fs::remove_all(folder_, taken);
    } while (fs::exists(folder_));
  }
  Source& source() override { return source_; }
  bool has_small_levels() const override { return false; }
  std::string root() const override { return folder_.string().substr(1) + "/"; }
  void put(const std::string& key, const std::string& content) override {
    fs::path path = folder_ / key.substr(root().size());
    fs::create_directories(path.parent_path());
    fs::remove(path);
    std::ofstream(path) << content;
  }

 private:
  fs::path folder_;
  FileSource source_;
};

// As on NFS: read by the pool.
class NetworkFileBucket : public FileBucket {
 public:
  explicit NetworkFileBucket(Executor& executor) : FileBucket(executor, FileAccess::kAsNetwork) {}
};

// As for a mount that takes writes.
class ExactFileBucket : public FileBucket {
 public:
  explicit ExactFileBucket(Executor& executor) : FileBucket(executor, FileAccess::kExact) {}
};

class DoubleBucket : public Bucket {
 public:
  explicit DoubleBucket(Executor& executor) : Bucket(executor), source_("b", kPageEntries) {}
  Source& source() override { return source_; }
  void put(const std::string& key, const std::string& content) override {
    source_.put(key, content);
  }

 private:
  MemorySource source_;
};

class RetryingBucket : public DoubleBucket {
 public:
  explicit RetryingBucket(Executor& executor) : DoubleBucket(executor) {
    SourcePtr unowned(std::shared_ptr<void>(), &DoubleBucket::source());
    retrying_ = RetryingSource::make(unowned);
  }
  Source& source() override { return *retrying_; }

 private:
  std::shared_ptr<RetryingSource> retrying_;
};

// Through the shim. Also filled through the shim, unless stated otherwise.
class OpendalBucket : public Bucket {
 public:
  struct Traits {
    std::string root;
    bool small_levels = true, small_trees = true, versions = true, parts = true;
    size_t page_entries = kPageEntries;
    std::string refused_characters;
    bool hides_dot_names = false;
    std::function<void(const std::string& key, const std::string& content)> put;
  };

  // `server` lives as long as the bucket.
  OpendalBucket(Executor& executor, OpendalConfig config, Traits traits,
                std::shared_ptr<void> server = nullptr)
      : Bucket(executor), server_(std::move(server)), traits_(std::move(traits)) {
    config.page_entries = traits_.page_entries;
    source_ = OpendalSource::open(std::move(config)).value();
  }
  Source& source() override { return *source_; }
  std::string root() const override { return traits_.root; }
  bool has_small_levels() const override { return traits_.small_levels; }
  bool has_small_trees() const override { return traits_.small_trees; }
  bool has_versions() const override { return traits_.versions; }
  bool takes_parts() const override { return traits_.parts; }
  bool takes(const std::string& name) const override {
    return name.find_first_of(traits_.refused_characters) == std::string::npos;
  }
  bool lists(const std::string& name) const override {
    return takes(name) && !(traits_.hides_dot_names && name.contains("/."));
  }
  void put(const std::string& key, const std::string& content) override {
    if (traits_.put) return traits_.put(key, content);
    auto stored = executor_.block_on(
        source_->write({}, {.key = key}, std::as_bytes(std::span<const char>(content))));
    ASSERT_TRUE(stored) << stored.error().to_string();
  }

 private:
  const std::shared_ptr<void> server_;
  const Traits traits_;
  std::shared_ptr<OpendalSource> source_;
};

// Servers that start slowly serve all tests of the program, each below a separate root.
template <class Server>
std::shared_ptr<Server> shared_server() {
  static const std::shared_ptr<Server> server = Server::start();
  return server;
}

inline std::string fresh_root() {
  static std::atomic<int> count = 0;
  return fmt::format("t{}/", ++count);
}

inline std::unique_ptr<Bucket> memory_bucket(Executor& executor) {
  OpendalConfig config;
  config.scheme = "memory";
  OpendalBucket::Traits traits;
  traits.small_levels = traits.small_trees = traits.versions = false;
  return std::make_unique<OpendalBucket>(executor, config, traits);
}

inline OpendalConfig s3_config(const std::string& endpoint) {
  OpendalConfig config;
  config.scheme = "s3";
  config.bucket = "bucket";
  config.endpoint = endpoint;
  config.options["region"] = "us-east-1";
  return config;
}

inline std::unique_ptr<Bucket> s3_bucket(Executor& executor) {
  auto gateway = VersityGateway::start();
  if (!gateway) return nullptr;
  setenv("AWS_ACCESS_KEY_ID", VersityGateway::kAccessKey, 1);
  setenv("AWS_SECRET_ACCESS_KEY", VersityGateway::kSecretKey, 1);
  OpendalConfig config = s3_config(gateway->endpoint());
  return std::make_unique<OpendalBucket>(executor, config, OpendalBucket::Traits(), gateway);
}

inline std::unique_ptr<Bucket> azure_bucket(Executor& executor) {
  auto server = shared_server<AzuriteServer>();
  if (!server) return nullptr;
  setenv("AZURE_STORAGE_ACCOUNT_NAME", AzuriteServer::kAccount, 1);
  setenv("AZURE_STORAGE_ACCOUNT_KEY", AzuriteServer::kKey, 1);
  OpendalConfig config;
  config.scheme = "az";
  config.bucket = AzuriteServer::kContainer;
  config.endpoint = server->endpoint();
  config.options["account"] = AzuriteServer::kAccount;
  OpendalBucket::Traits traits;
  traits.root = fresh_root();
  traits.small_levels = traits.small_trees = false;  // 5,000 at once
  traits.refused_characters = "\\";
  return std::make_unique<OpendalBucket>(executor, config, traits, server);
}

inline std::unique_ptr<Bucket> gcs_bucket(Executor& executor) {
  auto server = shared_server<FakeGcsServer>();
  if (!server) return nullptr;
  OpendalConfig config;
  config.scheme = "gs";
  config.bucket = FakeGcsServer::kBucket;
  config.endpoint = server->endpoint();
  config.options["anonymous"] = "true";
  OpendalBucket::Traits traits;
  traits.root = fresh_root();
  // This server repeats every prefix on each page, unlike Google's.
  traits.page_entries = 1000;
  traits.small_levels = traits.small_trees = false;
  traits.parts = false;  // nor does it support the interface of multipart uploads
  traits.put = [server](auto& key, auto& content) { server->put(key, content); };
  return std::make_unique<OpendalBucket>(executor, config, traits, server);
}

inline std::unique_ptr<Bucket> sftp_bucket(Executor& executor) {
  auto server = SftpServer::start();
  if (!server) return nullptr;
  OpendalConfig config;
  config.scheme = "sftp";
  config.endpoint = server->endpoint();
  config.options = {
      {"user", server->user()}, {"key", server->key_file()}, {"known_hosts", "accept"}};
  OpendalBucket::Traits traits;
  traits.root = server->folder().string().substr(1) + "/";
  traits.small_levels = false;
  traits.put = [server, root = traits.root](auto& key, auto& content) {
    server->put(key.substr(root.size()), content);
  };
  return std::make_unique<OpendalBucket>(executor, config, traits, server);
}

// Flat keys, unlike the other S3 server.
inline std::unique_ptr<Bucket> moto_bucket(Executor& executor) {
  auto server = MotoServer::start();
  if (!server) return nullptr;
  setenv("AWS_ACCESS_KEY_ID", MotoServer::kAccessKey, 1);
  setenv("AWS_SECRET_ACCESS_KEY", MotoServer::kSecretKey, 1);
  OpendalConfig config = s3_config(server->endpoint());
  return std::make_unique<OpendalBucket>(executor, config, OpendalBucket::Traits(), server);
}

inline std::unique_ptr<Bucket> hdfs_bucket(Executor& executor, OpendalConfig config) {
  auto server = HdfsCluster::start();
  OpendalBucket::Traits traits;
  traits.root = fresh_root();
  traits.small_levels = false;
  traits.put = [server](auto& key, auto& content) { server->put(key, content); };
  return std::make_unique<OpendalBucket>(executor, std::move(config), traits, server);
}

inline std::unique_ptr<Bucket> native_hdfs_bucket(Executor& executor) {
  if (!HdfsCluster::start()) return nullptr;
  OpendalConfig config;
  config.scheme = "hdfs";
  config.endpoint = HdfsCluster::start()->rpc_endpoint();
  return hdfs_bucket(executor, std::move(config));
}

inline std::unique_ptr<Bucket> webhdfs_bucket(Executor& executor) {
  if (!HdfsCluster::start()) return nullptr;
  OpendalConfig config;
  config.scheme = "webhdfs";
  config.endpoint = HdfsCluster::start()->endpoint();
  return hdfs_bucket(executor, std::move(config));
}

// `index`: the path at which the server shows its files, in one format or another.
inline std::unique_ptr<Bucket> web_bucket(Executor& executor, const std::string& index) {
  auto server = NginxServer::start();
  if (!server) return nullptr;
  OpendalConfig config;
  config.scheme = "http";
  config.endpoint = server->endpoint();
  config.endpoint.resize(config.endpoint.rfind('/'));
  OpendalBucket::Traits traits;
  traits.root = index + "/";
  traits.hides_dot_names = true;
  traits.small_levels = false;
  traits.put = [server, size = traits.root.size()](auto& key, auto& content) {
    server->put(key.substr(size), content);
  };
  return std::make_unique<OpendalBucket>(executor, config, traits, server);
}

// Without ranges and ETags.
inline std::unique_ptr<Bucket> python_bucket(Executor& executor) {
  auto server = PythonServer::start();
  if (!server) return nullptr;
  OpendalConfig config;
  config.scheme = "http";
  config.endpoint = server->endpoint();
  OpendalBucket::Traits traits;
  traits.root = "files/";
  traits.small_levels = false;
  traits.put = [server](auto& key, auto& content) { server->put(key, content); };
  return std::make_unique<OpendalBucket>(executor, config, traits, server);
}

inline std::unique_ptr<Bucket> hub_bucket(Executor& executor) {
  auto server = shared_server<FakeHub>();
  if (!server) return nullptr;
  OpendalBucket::Traits traits;
  traits.root = FakeHub::kRepo + ("/" + fresh_root());
  traits.small_levels = false;
  traits.put = [server](auto& key, auto& content) { server->put(key, content); };
  return std::make_unique<OpendalBucket>(executor, server->config(), traits, server);
}

using MakeBucket = std::function<std::unique_ptr<Bucket>(Executor&)>;

template <class Kind>
std::unique_ptr<Bucket> plain_bucket(Executor& executor) {
  return std::make_unique<Kind>(executor);
}

// Null if its server is not installed; tools/setup test installs it.
inline const std::map<std::string, MakeBucket>& bucket_kinds() {
  static const std::map<std::string, MakeBucket> kinds = {
      {"file", &plain_bucket<FileBucket>},
      {"exact_file", &plain_bucket<ExactFileBucket>},
      {"network_file", &plain_bucket<NetworkFileBucket>},
      {"double", &plain_bucket<DoubleBucket>},
      {"retrying", &plain_bucket<RetryingBucket>},
      {"memory", &memory_bucket},
      {"s3", &s3_bucket},
      {"azure", &azure_bucket},
      {"gcs", &gcs_bucket},
      {"hub", &hub_bucket},
      {"sftp", &sftp_bucket},
      {"moto", &moto_bucket},
      {"hdfs", &native_hdfs_bucket},
      {"webhdfs", &webhdfs_bucket},
      {"web_html", [](Executor& executor) { return web_bucket(executor, "files"); }},
      {"web_python", &python_bucket},
      {"web_json", [](Executor& executor) { return web_bucket(executor, "json"); }},
  };
  return kinds;
}

inline std::vector<std::string> bucket_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : bucket_kinds()) names.push_back(name);
  return names;
}

}  // namespace leat::testing
