// SPDX-License-Identifier: Apache-2.0
#include "peer/fd_passing/fd_providers.h"

#include <sys/resource.h>

#include "peer/fd_passing/fd_client.h"
#include "peer/fd_passing/passed_file.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// A file takes two descriptors; all files together may use a quarter of the process's limit.
bool may_open_another() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && PassedFile::open() < limit.rlim_cur / 8;
}

class SocketFdProvider : public FdProvider {
 public:
  SocketFdProvider(FdClient client, std::string socket, const FdProvidersOptions& options)
      : client_(std::move(client)),
        socket_(std::move(socket)),
        timeout_(options.timeout),
        backoff_(options.backoff) {}

  bool usable() const override { return Clock::now().time_since_epoch() >= backoff_until_.load(); }

  Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) override {
    if (!may_open_another()) {
      co_return error(StatusCode::kNotFound, "too many files of workers are open");
    }
    const uint64_t size = request.file.size;
    Result<LeasedFile> leased =
        co_await client_.open(context.with_timeout(timeout_), std::move(request));
    if (!leased) {
      const bool answered = leased.error().code() == StatusCode::kNotFound;
      // If the caller gave up, the missing answer does not count against the worker.
      if (!answered && context.check("an open")) back_off(leased.error());
      co_return Error(leased.error());
    }
    auto owner = std::make_shared<const LeasedFile>(*std::move(leased));
    const int fd = owner->fd();
    co_return std::make_shared<PassedFile>(std::move(owner), fd, size);
  }

 private:
  void back_off(const Status& why) {
    backoff_until_ = (Clock::now() + backoff_).time_since_epoch();
    if (!logged_.exchange(true)) {
      log::info("files of the worker at {} are read over the network: {}", socket_,
                why.to_string());
    }
  }

  const FdClient client_;
  const std::string socket_;
  const Clock::duration timeout_, backoff_;
  std::atomic<Clock::duration> backoff_until_ = Clock::duration::min();
  std::atomic<bool> logged_ = false;
};

}  // namespace

FdProviderPtr FdProviders::make(const WorkerInfo& info) const {
  if (options_.own) {
    if (FdProviderPtr own = options_.own(info)) return own;
  }
  const bool here = !options_.host_id.empty() && info.host_id == options_.host_id;
  if (!here || !info.fd_socket.starts_with('/')) return nullptr;
  return std::make_shared<SocketFdProvider>(FdClient(info.fd_socket, info.id, options_.signer),
                                            info.fd_socket, options_);
}

void FdProviders::update(const ClusterView& view) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, info] : view.workers) {
    const std::string endpoint = info.host_id + "\n" + info.fd_socket;
    auto entry = providers_.find(id);
    if (entry != providers_.end() && entry->second.endpoint == endpoint) continue;
    if (entry != providers_.end()) providers_.erase(entry);
    if (FdProviderPtr provider = make(info)) providers_[id] = {endpoint, std::move(provider)};
  }
  std::erase_if(providers_, [&](const auto& one) { return !view.workers.contains(one.first); });
  count_ = providers_.size();
}

FdProviderPtr FdProviders::find(const WorkerId& id) const {
  std::lock_guard lock(mutex_);
  auto found = providers_.find(id);
  const bool usable = found != providers_.end() && found->second.provider->usable();
  return usable ? found->second.provider : nullptr;
}

}  // namespace leat
