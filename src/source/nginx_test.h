// SPDX-License-Identifier: Apache-2.0
// NginxServer: a static HTTP server (nginx) over a directory, with ranges, ETags and index pages,
// on loopback for the life of the object.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "runtime/server_process_test.h"

namespace leat::testing {

class NginxServer {
 public:
  static constexpr char kHowToGetIt[] =
      "nginx is not installed; run tools/setup test, or name the program in LEAT_NGINX";

  // Serves an empty directory. Returns null if the server does not start.
  static std::shared_ptr<NginxServer> start() {
    auto server = std::shared_ptr<NginxServer>(new NginxServer());
    return server->launch() ? server : nullptr;
  }

  // Shows directories as nginx's HTML page.
  std::string endpoint() const { return process_.endpoint() + "/files"; }
  // The same files; shows directories as nginx's JSON array.
  std::string json_endpoint() const { return process_.endpoint() + "/json"; }
  // The same files, without ETags.
  std::string plain_endpoint() const { return process_.endpoint() + "/plain"; }
  // The same files; sends X.gz for X to a client that accepts gzip.
  std::string packing_endpoint() const { return process_.endpoint() + "/packing"; }
  // The same files; unpacks X.gz for X for a client that does not accept gzip.
  std::string unpacking_endpoint() const { return process_.endpoint() + "/unpacking"; }
  std::filesystem::path folder() const { return process_.folder() / "data"; }

  void put(const std::string& key, std::string_view content) const {
    put_file(folder(), key, content);
  }

 private:
  NginxServer() { std::filesystem::create_directories(folder()); }

  bool launch() {
    std::string program = find_program("LEAT_NGINX", "nginx/usr/sbin/nginx");
    if (program.empty()) return false;
    std::string prefix = process_.folder().string() + "/";
    std::ofstream(prefix + "nginx.conf") << config();
    return process_.launch({program, "-p", prefix, "-c", prefix + "nginx.conf", "-e", "stderr"});
  }

  // Runs one process under the present user: a worker under `nobody` could not read the files.
  std::string config() const {
    return R"(daemon off; master_process off; pid nginx.pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; etag on; sendfile on; tcp_nopush on; default_type application/octet-stream;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5; autoindex on; autoindex_exact_size on;
  server {
    listen )" +
           process_.address() + R"(;
    location /files/ { alias data/; autoindex_format html; }
    location /json/ { alias data/; autoindex_format json; }
    location /plain/ { alias data/; etag off; autoindex_format html; }
    location /packing/ { alias data/; gzip on; gzip_types *; gzip_min_length 1; gzip_static on; }
    location /unpacking/ { alias data/; gzip_static always; gunzip on; }
  }
}
)";
  }

  ServerProcess process_{"nginx"};
};

}  // namespace leat::testing
