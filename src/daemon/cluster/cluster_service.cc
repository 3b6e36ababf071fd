// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster_service.h"

#include "frontends/peer/worker_http_server.h"
#include "peer/client/peer_client.h"
#include "telemetry/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <ranges>
#include <set>

#include "daemon/cluster/cluster_options.h"
#include "daemon/cluster/mounted_path.h"
#include "frontends/admin/codec_cluster.h"
#include "frontends/peer/job_routes.h"
#include "model/mount_entry.h"
#include "model/mount_options.h"
#include "model/policy_settings.h"
#include "peer/mounts/mount_lookup.h"
#include "runtime/descriptor_limit.h"
#include "source/io_timeout.h"
#include "source/stores/url_options.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr const char* kDefaultTokenFile = "/etc/leat/cluster.token";
constexpr std::array<std::string_view, 4> kUrlOptions = {"token", "ca", "certificate", "key"};
constexpr std::string_view kHedgeOption = "hedge";
constexpr uint16_t kDefaultPort = 7480;
constexpr Clock::duration kJobRequestTimeout = std::chrono::seconds(30);
constexpr Clock::duration kClientCheckInterval = std::chrono::seconds(30);

// The kernel's boot id: processes with the same one share a machine.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string option(const StoreUrl& url, const std::string& name) {
  auto found = url.options.find(name);
  return found == url.options.end() ? "" : found->second;
}

Result<bool> hedges_of(const StoreUrl& url) {
  const std::string words = option(url, std::string(kHedgeOption));
  if (words.empty() || words == "auto") return true;
  if (words == "never") return false;
  return error(StatusCode::kInvalidArgument,
               fmt::format("{}={} is neither auto nor never", kHedgeOption, words));
}

Result<std::vector<std::string>> seeds_of(const StoreUrl& url) {
  std::vector<std::string> seeds;
  for (auto part : std::views::split(url.bucket, ',')) {
    std::string word(part.begin(), part.end());
    if (word.find(':') == word.npos) word += fmt::format(":{}", kDefaultPort);
    auto endpoint = HttpEndpoint::parse(word);
    if (!endpoint) {
      return error(endpoint.error().with_context(
          fmt::format("{} does not name workers; write leat://HOST:PORT/PATH", url.to_string())));
    }
    seeds.push_back(std::move(word));
  }
  return seeds;
}

// Returns the worker's socket for fd passing; empty: none.
Result<std::string> socket_of(const ClusterServiceOptions& options) {
  const std::string& given = options.config.text("worker.fd_socket");
  if (given == "none") return std::string();
  if (given == "auto") return options.runtime_directory + "/files.sock";
  if (given.starts_with('/')) return given;
  return error(
      StatusCode::kInvalidArgument,
      fmt::format("worker.fd_socket is '{}' and has to be auto, none or an absolute path", given));
}

Result<> check_url(const StoreUrl& url) {
  std::vector<std::string_view> known(kUrlOptions.begin(), kUrlOptions.end());
  known.push_back(kHedgeOption);
  known.push_back(kIoTimeoutOption);
  known.insert(known.end(), policy_options().begin(), policy_options().end());
  known.insert(known.end(), mount_option_names().begin(), mount_option_names().end());
  return check_options(url, known, "the file that the option token names");
}

using ClientTls = std::shared_ptr<const HttpTls>;

Result<std::shared_ptr<PeerClient>> make_client(const WorkerInfo& worker, const ClientTls& tls,
                                                std::shared_ptr<RequestSigner> signer,
                                                Executor& executor) {
  PeerClientOptions options{.address = worker.address, .worker = worker.id, .tls = tls};
  options.supports_batches = worker.supports_batches();
  return PeerClient::make(std::move(options), std::move(signer), executor);
}

ConnectPeer connect_peers(ClientTls tls, Executor& executor) {
  return [tls = std::move(tls), &executor](const WorkerInfo& worker,
                                           std::shared_ptr<RequestSigner> signer) -> PeerPtr {
    auto client = make_client(worker, tls, std::move(signer), executor);
    if (client) return *client;
    log::warning("worker {}: {}", worker.address, client.error().to_string());
    return nullptr;
  };
}

// Returns the path in the cluster's namespace.
std::string path_in(const StoreUrl& url) {
  std::string path = "/" + url.prefix;
  if (path.size() > 1) path.pop_back();
  return path;
}

// Translates a change of the cluster's namespace to the mount, if it concerns it. Cached
// directories are listed again through the worker that has refreshed them, and differences are
// passed to the kernel.
std::optional<InvalidatedPath> invalidated_path(const MountEntry& mount,
                                                const Invalidation& change) {
  const std::string root = path_in(mount.source);
  const std::string path = invalidated_directory(change);
  const bool all = change.kind == Invalidation::Kind::kAll;
  if (is_at_or_below(path, root))
    return InvalidatedPath{join_path(mount.path, path_below(path, root)), all};
  if (all && is_at_or_below(root, path)) return InvalidatedPath{mount.path, true};
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<ClusterService>> ClusterService::start(const ClusterServiceOptions& options,
                                                              HostCache& store,
                                                              Executor& executor) {
  std::unique_ptr<ClusterService> cluster(new ClusterService(executor));
  const Config& config = options.config;
  if (!in_cluster(config)) return cluster;
  LEAT_TRY(auto registry, open_registry(config, executor));
  LEAT_TRY(auto secrets, SecretFile::open(config.text("cluster.secret_file")));
  LEAT_TRY(HttpEndpoint listen, HttpEndpoint::parse(config.text("worker.listen")));
  LEAT_TRY(cluster->worker_tls_, worker_tls(config));
  ClusterWorkerOptions worker{.cluster = config.text("cluster.name"),
                              .advertise = config.text("worker.advertise"),
                              .host_id = boot_id(),
                              .host_name = host_name(),
                              .version = options.version,
                              .scratch_directory = options.scratch_directory};
  worker.fetch.memory_bytes_max = options.memory_bytes_max;
  worker.hot_stripe_bandwidth = config.bytes("worker.hot_stripe_bandwidth");
  worker.staging_directory = options.scratch_directory + "/staging";
  worker.staging_bytes_max = options.staging_bytes_max;
  worker.failure_domain = config.text("worker.failure_domain");
  LEAT_TRY(worker.local_paths, LocalPaths::parse(config.text("worker.local_paths")));
  worker.fetch.requests_max = requests_within_descriptors(
      static_cast<unsigned>(config.integer("fetch.requests_per_store_max")));
  LEAT_TRY(std::string fd_socket, socket_of(options));
  ClusterWorkerNetwork network;
  network.connect = connect_peers(cluster->worker_tls_, executor);
  LEAT_TRY(network.start_server,
           worker_http_server({.listen = std::move(listen),
                               .advertise = worker.advertise,
                               .fd_socket = std::move(fd_socket),
                               .tls = cluster->worker_tls_,
                               .response_bytes_max = options.memory_bytes_max}));
  LEAT_TRY(cluster->worker_,
           ClusterWorker::start(std::move(worker), std::move(network), std::move(registry),
                                std::move(secrets), store, executor));
  cluster->checks_ = std::make_unique<PeerChecks>(
      [self = cluster.get()](const WorkerInfo& info) {
        return make_client(info, self->worker_tls_, self->worker_->signer(), self->executor_);
      },
      executor);
  return cluster;
}

// A client sends requests to its workers as long as it exists. So one without mounts is removed
// after two checks.
Task<> ClusterService::stop_unused(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  std::set<ClientPtr> before;
  while (true) {
    Result<> slept = co_await sleep_for(context, kClientCheckInterval);
    if (!slept) co_return;
    std::set<ClientPtr> unused, ended;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [key, client] : clients_) {
        if (client->unused()) (before.contains(client) ? ended : unused).insert(client);
      }
      std::erase_if(clients_, [&](const auto& one) { return ended.contains(one.second); });
    }
    for (const ClientPtr& client : ended) co_await client->stop();
    before = std::move(unused);
  }
}

Task<> ClusterService::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
  std::map<std::string, ClientPtr> clients;
  std::shared_ptr<InvalidationApplier> applier;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    catalog_ = nullptr;
    clients = clients_;
    applier = applier_;
  }
  if (applier != nullptr) co_await applier->stop();
  for (const auto& [key, client] : clients) co_await client->stop();
  if (worker_) co_await worker_->stop();
}

void ClusterService::set_catalog(Catalog* catalog) {
  {
    std::lock_guard lock(mutex_);
    catalog_ = catalog;
    if (catalog != nullptr) applier_ = std::make_shared<InvalidationApplier>(*catalog, executor_);
    if (catalog == nullptr && applier_ != nullptr) applier_->close();
  }
  if (catalog == nullptr) return;
  if (auto holder = gate_.enter()) executor_.spawn(stop_unused(*std::move(holder)));
  if (worker_ == nullptr) return;
  if (auto holder = gate_.enter()) executor_.spawn(watch_workers(*std::move(holder)));
}

// --- mounts of a cluster -------------------------------------------------------------------------

Task<Result<SourcePtr>> ClusterService::open_source(Context context, StoreUrl url,
                                                    bool must_respond) {
  LEAT_CO_CHECK_OK(check_url(url));
  Result<ClientPtr> client = client_of(url);
  if (!client) co_return Error(client.error());
  if (must_respond) {
    Result<> seen = co_await (*client)->first_view(context);
    if (seen) {
      seen = co_await wait_for_mount_path(context, (*client)->views(), path_in(url),
                                          claims_in(token_file_of(url)));
    }
    if (!seen) {
      // Remove the client: the next mount reads its token again, and no requests continue.
      if (release(*client)) co_await (*client)->stop();
      co_return Error(seen.error());
    }
  }
  Result<SourcePtr> source = source_of(*client);
  if (!source || !must_respond) co_return source;
  Result<> there = co_await check_directory(context, *source, url.prefix);
  if (!there) co_return Error(there.error());
  co_return source;
}

Result<SourcePtr> ClusterService::source_of(const ClientPtr& client) {
  std::lock_guard lock(mutex_);
  const bool there =
      std::ranges::any_of(clients_, [&](const auto& one) { return one.second == client; });
  if (there) return client->source();
  return error(StatusCode::kUnavailable, "no worker responded to another mount; try again");
}

bool ClusterService::release(const ClientPtr& client) {
  std::lock_guard lock(mutex_);
  if (client->used()) return false;
  return std::erase_if(clients_, [&](const auto& one) { return one.second == client; }) > 0;
}

// Empty without a token: a worker is its own client, with a worker's rights.
std::string ClusterService::token_file_of(const StoreUrl& url) const {
  const std::string given = option(url, "token");
  if (!given.empty()) return given;
  return worker_ != nullptr ? "" : kDefaultTokenFile;
}

Result<std::shared_ptr<RequestSigner>> ClusterService::signer_of(const StoreUrl& url) const {
  const std::string file = token_file_of(url);
  if (file.empty()) return worker_->signer();
  Result<Token> token = Token::read(file);
  if (!token) {
    return error(token.error().with_context(
        fmt::format("no token for {}; 'leat cluster token' on a worker makes one, and the option "
                    "token=FILE names it",
                    url.to_string())));
  }
  return std::make_shared<RequestSigner>(*std::move(token));
}

Result<ClusterService::ClientPtr> ClusterService::client_of(const StoreUrl& url) {
  std::string key = url.bucket;
  for (std::string_view name : kUrlOptions) key += "\n" + option(url, std::string(name));
  LEAT_TRY(const bool hedges, hedges_of(url));
  if (!hedges) key += "\n" + std::string(kHedgeOption);
  const std::string identity = key;  // cached data does not depend on the timeout
  LEAT_TRY(const Clock::duration io_timeout, io_timeout_of(url));
  if (io_timeout != kIoTimeoutDefault) key += "\n" + io_timeout_text(io_timeout);
  {
    std::lock_guard lock(mutex_);
    if (auto found = clients_.find(key); found != clients_.end()) return found->second;
  }
  ClusterClientOptions options;
  LEAT_TRY(options.seeds, seeds_of(url));
  LEAT_TRY(options.signer, signer_of(url));
  options.token_file = token_file_of(url);
  options.host_id = boot_id();
  HttpTlsOptions tls{.ca_file = option(url, "ca"),
                     .certificate_file = option(url, "certificate"),
                     .key_file = option(url, "key")};
  if (!tls.ca_file.empty() || !tls.certificate_file.empty()) {
    LEAT_TRY(options.tls, HttpTls::load(std::move(tls)));
  } else if (worker_ != nullptr) {
    options.tls = worker_tls_;
  }
  // Only without a token, which may have fewer rights than the worker.
  if (option(url, "token").empty()) {
    options.local = [this](const WorkerInfo& info) {
      return is_own(info) ? worker_->service() : nullptr;
    };
    options.local_files = [this](const WorkerInfo& info) {
      return is_own(info) ? worker_->fd_provider() : nullptr;
    };
  }
  options.hedges = hedges;
  options.io_timeout = io_timeout;
  options.identity = identity;
  options.on_invalidations = [this, key](Invalidations changes) {
    return on_invalidations(this, key, std::move(changes));
  };
  std::lock_guard lock(mutex_);
  if (stopped_) return error(StatusCode::kUnavailable, "the daemon is ending");
  auto& client = clients_[key];
  if (client == nullptr) client = ClusterClient::start(std::move(options), executor_);
  return client;
}

bool ClusterService::is_own(const WorkerInfo& info) const {
  return worker_ != nullptr && info.id == worker_->self().id;
}

Task<> ClusterService::on_invalidations(ClusterService* self, std::string client,
                                        Invalidations changes) {
  std::shared_ptr<InvalidationApplier> applier;
  std::vector<MountPtr> mounts;
  {
    std::lock_guard lock(self->mutex_);
    auto found = self->clients_.find(client);
    if (self->catalog_ == nullptr || found == self->clients_.end()) co_return;
    if (found->second->views().view()->revision == 0) co_return;
    applier = self->applier_;
    const SourcePtr source = found->second->source();
    for (const MountPtr& mount : self->catalog_->mounts()) {
      if (mount->source == source) mounts.push_back(mount);
    }
  }
  std::vector<InvalidatedPath> paths;
  for (const MountPtr& mount : mounts) {
    for (const Invalidation& change : changes.items) {
      if (auto one = invalidated_path(mount->entry, change)) paths.push_back(*std::move(one));
    }
  }
  applier->apply(paths);
}

// --- the worker ----------------------------------------------------------------------------------

// --- jobs, through our worker or a mounted cluster -----------------------------------------------

// Returns the client that authorises requests about jobs.
Result<ClusterService::ClientPtr> ClusterService::only_client() const {
  std::lock_guard lock(mutex_);
  if (clients_.size() == 1) return clients_.begin()->second;
  if (clients_.empty()) {
    return error(StatusCode::kUnsupported,
                 "this daemon is no worker of a cluster and mounts none: 'leat worker --registry "
                 "…' makes it one, 'leat mount leat://HOST:PORT/PATH DIR' mounts one");
  }
  return error(StatusCode::kUnsupported,
               fmt::format("this daemon mounts {} clusters, or one by several tokens, and jobs "
                           "run in one of them: start them on a worker, or through a daemon that "
                           "mounts one (LEAT_RUNTIME_DIR)",
                           clients_.size()));
}

Task<Result<Json>> ClusterService::request_jobs(Context context, std::string method,
                                                std::string below, std::string body) const {
  Result<ClientPtr> client = only_client();
  if (!client) co_return Error(client.error());
  Result<std::string> answer =
      co_await (*client)->request_jobs(context.with_timeout(kJobRequestTimeout), std::move(method),
                                       std::move(below), std::move(body));
  if (!answer) co_return Error(answer.error());
  co_return parse_json(*answer, "a worker's response");
}

Task<Result<ClusterJobView>> ClusterService::request_job(Context context, std::string method,
                                                         std::string below,
                                                         std::string body) const {
  Result<Json> answer = co_await request_jobs(std::move(context), std::move(method),
                                              std::move(below), std::move(body));
  if (!answer) co_return Error(answer.error());
  co_return from_json<ClusterJobView>(*answer);
}

Task<Result<ClusterJobView>> ClusterService::start_cluster_job(Context context,
                                                               ClusterJobRequest request) {
  if (worker_ == nullptr) {
    co_return co_await request_job(std::move(context), "POST", "", dump_json(to_json(request)));
  }
  Result<ClusterJobSpec> job_spec = cluster_job_spec_of(request);
  if (!job_spec) co_return Error(job_spec.error());
  const std::string principal = TokenClaims::of_worker(worker_->self().id).principal;
  Result<ClusterJob> job =
      co_await worker_->jobs().add(context, job_spec->spec, job_spec->schedule, principal);
  if (!job) co_return Error(job.error());
  co_return cluster_job_view(*job);
}

Task<Result<std::vector<ClusterJobView>>> ClusterService::cluster_jobs(Context context) const {
  std::vector<ClusterJobView> views;
  if (worker_ != nullptr) {
    for (const ClusterJob& job : worker_->jobs().jobs()) views.push_back(cluster_job_view(job));
    co_return views;
  }
  Result<Json> answer = co_await request_jobs(std::move(context), "GET", "", "");
  if (!answer) co_return Error(answer.error());
  const Json jobs = answer->value("jobs", Json::array());
  for (const Json& one : jobs) {
    Result<ClusterJobView> job = from_json<ClusterJobView>(one);
    if (!job) co_return Error(job.error());
    views.push_back(*std::move(job));
  }
  co_return views;
}

Task<Result<ClusterJobView>> ClusterService::cluster_job(Context context, uint64_t id) const {
  if (worker_ == nullptr) {
    co_return co_await request_job(std::move(context), "GET", fmt::format("/{}", id), "");
  }
  Result<ClusterJob> job = worker_->jobs().find(id);
  if (!job) co_return Error(job.error());
  co_return cluster_job_view(*job);
}

Task<Result<ClusterJobView>> ClusterService::cancel_cluster_job(Context context, uint64_t id) {
  if (worker_ == nullptr) {
    co_return co_await request_job(std::move(context), "DELETE", fmt::format("/{}", id), "");
  }
  Result<ClusterJob> job = co_await worker_->jobs().cancel(context, id);
  if (!job) co_return Error(job.error());
  co_return cluster_job_view(*job);
}

}  // namespace leat
