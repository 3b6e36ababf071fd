// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster_options.h"

#include <fmt/format.h>

#include <ranges>

#include "auth/cluster_secret.h"
#include "cluster/embedded_registry.h"
#include "cluster/etcd_registry.h"
#include "runtime/disk.h"

namespace leat {
namespace {

constexpr std::string_view kFileScheme = "file://";

Result<std::shared_ptr<const HttpTls>> tls_of(const Config& config, const std::string& section) {
  HttpTlsOptions options{.ca_file = config.text(section + "ca"),
                         .certificate_file = config.text(section + "certificate"),
                         .key_file = config.text(section + "key")};
  if (options.ca_file.empty() && options.certificate_file.empty()) {
    return std::shared_ptr<const HttpTls>();
  }
  return HttpTls::load(std::move(options));
}

Result<HttpEndpoint> etcd_endpoint(std::string_view word, bool* tls) {
  std::string_view rest = word;
  *tls = rest.starts_with("https://");
  for (std::string_view scheme : {"http://", "https://"}) {
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return HttpEndpoint::parse(rest);
}

Result<std::unique_ptr<Registry>> open_etcd(const Config& config) {
  EtcdOptions options{.prefix = fmt::format("/leat/{}/", config.text("cluster.name"))};
  bool any_tls = false;
  for (auto part : std::views::split(config.text("cluster.registry"), ',')) {
    bool tls = false;
    LEAT_TRY(HttpEndpoint endpoint,
             etcd_endpoint(std::string_view(part.begin(), part.end()), &tls));
    if (tls != any_tls && !options.endpoints.empty()) {
      return error(StatusCode::kInvalidArgument,
                   "cluster.registry names some members with https and some without; write all "
                   "of them alike");
    }
    any_tls = tls;
    options.endpoints.push_back(std::move(endpoint));
  }
  options.user = config.text("cluster.registry_user");
  if (const std::string& file = config.text("cluster.registry_password_file"); !file.empty()) {
    LEAT_TRY(options.password, read_secret_file(file, "the registry's password"));
    while (options.password.ends_with('\n')) options.password.pop_back();
  }
  if (any_tls) {
    LEAT_TRY(options.tls,
             HttpTls::load({.ca_file = config.text("cluster.registry_ca"),
                            .certificate_file = config.text("cluster.registry_certificate"),
                            .key_file = config.text("cluster.registry_key")}));
  }
  return EtcdRegistry::create(std::move(options));
}

}  // namespace

std::vector<Option> cluster_schema() {
  using enum OptionType;
  return {
      {.name = "cluster.registry",
       .type = kString,
       .default_text = "",
       .help = "run as a worker: etcd endpoints http://HOST:2379, comma-separated, or file:///PATH "
               "for one worker",
       .form = "etcd URLs, with commas between them, or file:///PATH"},
      {.name = "cluster.name",
       .type = kString,
       .default_text = "default",
       .help = "name of the cluster; several may share an etcd",
       .form = "a name"},
      {.name = "cluster.registry_user",
       .type = kString,
       .default_text = "",
       .help = "user for etcd; empty: none",
       .form = "a name"},
      {.name = "cluster.registry_password_file",
       .type = kString,
       .default_text = "",
       .help = "file of mode 0600 with the password of that user",
       .form = "an absolute path"},
      {.name = "cluster.registry_ca",
       .type = kString,
       .default_text = "",
       .help = "PEM file of the CA of etcd, for https://; empty: the system's CAs",
       .form = "an absolute path"},
      {.name = "cluster.registry_certificate",
       .type = kString,
       .default_text = "",
       .help = "PEM file of the client certificate for etcd",
       .form = "an absolute path"},
      {.name = "cluster.registry_key",
       .type = kString,
       .default_text = "",
       .help = "PEM file of its key",
       .form = "an absolute path"},
      {.name = "cluster.secret_file",
       .type = kString,
       .default_text = "/etc/leat/cluster.secret",
       .help = "shared secret of the cluster, created by 'leat cluster secret'",
       .form = "an absolute path"},
      {.name = "worker.listen",
       .type = kString,
       .default_text = "127.0.0.1:7480",
       .help = "listen address for clients and other workers",
       .form = "HOST:PORT"},
      {.name = "worker.advertise",
       .type = kString,
       .default_text = "",
       .help = "address published to the cluster, HOST:PORT; empty: worker.listen",
       .form = "HOST:PORT"},
      {.name = "worker.failure_domain",
       .type = kString,
       .default_text = "",
       .help = "name of what fails together, such as a rack: staged writes are held by workers of "
               "different ones; empty: the host",
       .form = "any text"},
      {.name = "worker.hot_stripe_bandwidth",
       .type = kBytes,
       .default_text = "256MiB",
       .help =
           "bytes per second of a 64 MiB stripe above which replicas serve it too; 0: no replicas",
       .min = "64KiB",
       .max = "1TiB",
       .or_zero = true},
      {.name = "worker.fd_socket",
       .type = kString,
       .default_text = "auto",
       .help = "Unix socket for fd passing to readers on this host; auto: files.sock in the "
               "runtime directory; none: disabled",
       .form = "auto, none or an absolute path"},
      {.name = "worker.local_paths",
       .type = kString,
       .default_text = "",
       .help = "local directories that cluster mounts and copies may use as file://; empty: none",
       .form = "absolute paths, with commas between them"},
      {.name = "worker.certificate",
       .type = kString,
       .default_text = "",
       .help = "PEM file of this worker's certificate; enables TLS for the cluster",
       .form = "an absolute path"},
      {.name = "worker.key",
       .type = kString,
       .default_text = "",
       .help = "PEM file of its key",
       .form = "an absolute path"},
      {.name = "worker.ca",
       .type = kString,
       .default_text = "",
       .help = "PEM file of the CA of workers and clients; requires client certificates",
       .form = "an absolute path"},
  };
}

bool in_cluster(const Config& config) {
  return !config.text("cluster.registry").empty();
}

Result<std::unique_ptr<Registry>> open_registry(const Config& config, Executor& executor) {
  const std::string& where = config.text("cluster.registry");
  if (!where.starts_with(kFileScheme)) {
    auto etcd = open_etcd(config);
    if (!etcd) return error(etcd.error().with_context("cluster.registry"));
    return etcd;
  }
  EmbeddedRegistryOptions options{.path = where.substr(kFileScheme.size())};
  LEAT_TRY(auto registry,
           EmbeddedRegistry::open(std::move(options), make_disk(executor), executor));
  return std::unique_ptr<Registry>(std::move(registry));
}

Result<std::shared_ptr<const HttpTls>> worker_tls(const Config& config) {
  return tls_of(config, "worker.");
}

}  // namespace leat
