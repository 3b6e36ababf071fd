// SPDX-License-Identifier: Apache-2.0
#include "peer/handover/file_givers.h"

#include <sys/resource.h>

#include "peer/handover/descriptor_client.h"
#include "peer/handover/given_file.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// A file takes two descriptors; all files together may use a quarter of the process's limit.
bool may_hold_one_more() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && GivenFile::open() < limit.rlim_cur / 8;
}

class SocketGiver : public FileGiver {
 public:
  SocketGiver(DescriptorClient client, std::string socket, const FileGiversOptions& options)
      : client_(std::move(client)),
        socket_(std::move(socket)),
        patience_(options.patience),
        rest_(options.rest) {}

  bool usable() const override { return Clock::now().time_since_epoch() >= rests_until_.load(); }

  Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) override {
    if (!may_hold_one_more()) {
      co_return error(StatusCode::kNotFound, "too many files of workers are open");
    }
    const uint64_t size = request.file.size;
    Result<LeasedFile> leased =
        co_await client_.open(context.with_timeout(patience_), std::move(request));
    if (!leased) {
      const bool answered = leased.error().code() == StatusCode::kNotFound;
      // If the caller gave up, the missing answer does not count against the worker.
      if (!answered && context.check("an open")) rest(leased.error());
      co_return Error(leased.error());
    }
    auto owner = std::make_shared<const LeasedFile>(*std::move(leased));
    const int fd = owner->fd();
    co_return std::make_shared<GivenFile>(std::move(owner), fd, size);
  }

 private:
  void rest(const Status& why) {
    rests_until_ = (Clock::now() + rest_).time_since_epoch();
    if (!said_.exchange(true)) {
      log::info("files of the worker at {} are read by its address: {}", socket_, why.to_string());
    }
  }

  const DescriptorClient client_;
  const std::string socket_;
  const Clock::duration patience_, rest_;
  std::atomic<Clock::duration> rests_until_ = Clock::duration::min();
  std::atomic<bool> said_ = false;
};

}  // namespace

FileGiverPtr FileGivers::make(const WorkerInfo& info) const {
  if (options_.own) {
    if (FileGiverPtr own = options_.own(info)) return own;
  }
  const bool here = !options_.host_id.empty() && info.host_id == options_.host_id;
  if (!here || !info.socket.starts_with('/')) return nullptr;
  return std::make_shared<SocketGiver>(DescriptorClient(info.socket, info.id, options_.signer),
                                       info.socket, options_);
}

void FileGivers::update(const ClusterView& view) {
  std::lock_guard lock(mutex_);
  for (const auto& [id, info] : view.workers) {
    const std::string place = info.host_id + "\n" + info.socket;
    auto known = givers_.find(id);
    if (known != givers_.end() && known->second.place == place) continue;
    if (known != givers_.end()) givers_.erase(known);
    if (FileGiverPtr giver = make(info)) givers_[id] = {place, std::move(giver)};
  }
  std::erase_if(givers_, [&](const auto& one) { return !view.workers.contains(one.first); });
  count_ = givers_.size();
}

FileGiverPtr FileGivers::find(const WorkerId& id) const {
  std::lock_guard lock(mutex_);
  auto found = givers_.find(id);
  const bool usable = found != givers_.end() && found->second.giver->usable();
  return usable ? found->second.giver : nullptr;
}

}  // namespace leat
