// SPDX-License-Identifier: Apache-2.0
// FakeCluster: a cluster without a network, for routing tests: workers that serve from one store or
// fail, a ring, and a view that the test changes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cluster/stripes.h"
#include "cluster/view_watch.h"
#include "peer/peer_table.h"
#include "runtime/executor.h"
#include "source/memory_source_test.h"

namespace leat::testing {

inline WorkerId worker_id(size_t number) {
  const std::string text = fmt::format("worker {}", number);
  const std::string_view part = text;
  return WorkerId(Id128::digest({&part, 1}));
}

class FakeViewSource : public ViewWatch {
 public:
  void set(ClusterView view) {
    ViewWatch::set(std::make_shared<const ClusterView>(std::move(view)));
  }
};

// Serves `store` as a responding worker, and counts requests.
class FakePeer : public Peer {
 public:
  FakePeer(WorkerId self, std::shared_ptr<MemorySource> store, FakeViewSource& views)
      : self_(self), store_(std::move(store)), views_(views) {}

  std::atomic<bool> up = true;
  std::atomic<bool> circuit_closed = true;
  std::atomic<bool> hangs = false;        // In reads, after the bytes before a break.
  std::atomic<uint64_t> breaks_after{0};  // Bytes of a read before the worker dies; 0: never.
  std::atomic<int> unanswered = 0;        // Number of next requests without an answer, while alive.
  std::atomic<bool> full = false;         // caches nothing more for jobs
  std::atomic<bool> has_all = false;      // cached here, whatever the owner
  std::atomic<int64_t> known_epoch = 0;   // 0: the map's
  std::atomic<int> requests = 0, failovers = 0, served = 0;
  std::atomic<int> only_if_cached = 0;        // part of `requests`
  std::atomic<int> replica_reads = 0;         // served as a replica
  std::atomic<uint32_t> hinted_replicas = 1;  // advised number of replicas

  bool usable() const override { return circuit_closed; }
  Task<PeerReply<void>> read(Context context, PeerRead request,
                             std::span<std::byte> into) override {
    const auto key = PlacementKey::stripe(request.file->store, request.file->key,
                                          stripe_at(request.range.offset, request.file->size));
    if (request.only_if_cached) ++only_if_cached;
    if (hangs) {
      ++requests;
      if (breaks_after != 0) {
        const ByteRange begin{request.range.offset, breaks_after};
        Result<> some = co_await store_->read(
            context, {request.file->key, begin, request.file->version}, into.first(breaks_after));
        if (some) request.progress.report(breaks_after);
      }
      Result<> ended = co_await sleep_for(context, std::chrono::hours(1));
      co_return PeerReply<void>{PeerOutcome::kUnreachable, std::move(ended), 0};
    }
    if (has_all && request.only_if_cached) {
      ++requests;
      ++served;
      Result<> got = co_await store_->read(context, {request.file->key, request.range, {}}, into);
      co_return PeerReply<void>{PeerOutcome::kAnswered, std::move(got), epoch()};
    }
    const bool breaks = breaks_after != 0;
    if (auto no = rejection<void>(key, request.route); no && !breaks) co_return *std::move(no);
    ReadRequest store_request{request.file->key, request.range, request.file->version};
    if (breaks) {
      store_request.range.size = breaks_after;
      into = into.first(breaks_after);
    }
    Result<> got = co_await store_->read(context, std::move(store_request), into);
    if (breaks) {
      request.progress.report(into.size());
      circuit_closed = false;
      co_return unreached<void>();
    }
    ReplicaHint advice{.replicas = hinted_replicas, .ttl = std::chrono::seconds(60)};
    co_return PeerReply<void>{PeerOutcome::kAnswered, std::move(got), epoch(), advice};
  }
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override {
    const auto key = PlacementKey::listing(request.store, request.prefix);
    if (auto no = rejection<ListPage>(key, request.route)) co_return *std::move(no);
    ListRequest list{.prefix = request.prefix, .token = request.token};
    Result<ListPage> page = co_await store_->list(context, std::move(list));
    co_return PeerReply<ListPage>{PeerOutcome::kAnswered, std::move(page), epoch()};
  }
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override {
    const auto slash = request.key.substr(0, request.key.size() - 1).rfind('/');
    const std::string parent = slash == std::string::npos ? "" : request.key.substr(0, slash + 1);
    const auto key = PlacementKey::listing(request.store, parent);
    if (auto no = rejection<SourceObject>(key, request.route)) co_return *std::move(no);
    Result<SourceObject> object = co_await store_->stat(context, {request.key});
    co_return PeerReply<SourceObject>{PeerOutcome::kAnswered, std::move(object), epoch()};
  }
  // Caches all requested parts.
  Task<PeerReply<uint64_t>> cache_op(Context, PeerCacheOp request) override {
    const auto key = PlacementKey::stripe(request.file->store, request.file->key,
                                          stripe_at(request.range.offset, request.file->size));
    if (auto no = rejection<uint64_t>(key, request.route)) co_return *std::move(no);
    if (full) {
      co_return PeerReply<uint64_t>{PeerOutcome::kAnswered,
                                    error(StatusCode::kNoSpace, "no room in /cache"), epoch()};
    }
    std::lock_guard lock(mutex_);
    const auto inserted = cached_.insert({request.file->id, request.range.offset});
    co_return PeerReply<uint64_t>{PeerOutcome::kAnswered, inserted.second ? request.range.size : 0,
                                  epoch()};
  }
  Task<PeerReply<uint64_t>> drop(Context, std::vector<FileId> files) override {
    if (!up) co_return unreached<uint64_t>();
    std::lock_guard lock(mutex_);
    uint64_t parts = 0;
    for (const FileId& id : files) {
      parts += std::erase_if(cached_, [&](const auto& part) { return part.first == id; });
    }
    co_return PeerReply<uint64_t>{PeerOutcome::kAnswered, parts, epoch()};
  }
  Task<PeerReply<VerifyProgress>> verify(Context, uint64_t) override {
    if (!up) co_return unreached<VerifyProgress>();
    std::lock_guard lock(mutex_);
    VerifyProgress all{.ended = true, .objects = cached_.size(), .objects_total = cached_.size()};
    co_return PeerReply<VerifyProgress>{PeerOutcome::kAnswered, std::move(all), epoch()};
  }

  // Copies in steps, as a worker does; `copied` collects the specs.
  Task<PeerReply<CopyStep>> copy(Context, PeerCopy request) override {
    ++requests;
    if (!up) co_return unreached<CopyStep>();
    std::lock_guard lock(mutex_);
    uint64_t& next = copies_[request.spec.copy];
    if (next != request.range.offset) {
      co_return PeerReply<CopyStep>{
          PeerOutcome::kAnswered, error(StatusCode::kUnavailable, "not in progress here"), epoch()};
    }
    next = request.range.end();
    const bool ended = next == request.file->size;
    if (ended) copied.push_back(request.spec);
    co_return PeerReply<CopyStep>{
        PeerOutcome::kAnswered,
        CopyStep{ended ? CopyState::kWritten : CopyState::kMore, request.range.size}, epoch()};
  }
  std::vector<CopySpec> copied;  // all of them

 private:
  int64_t epoch() const {
    const int64_t known = known_epoch;
    return known != 0 ? known : views_.view()->ring.epoch();
  }
  template <class T>
  static PeerReply<T> unreached() {
    return {PeerOutcome::kUnreachable, error(StatusCode::kUnavailable, "made not to answer"), 0};
  }
  template <class T>
  std::optional<PeerReply<T>> rejection(PlacementKey key, const PeerRoute& route) {
    ++requests;
    if (route.failover_for) ++failovers;
    if (!up) return unreached<T>();
    if (unanswered > 0) {
      --unanswered;
      return unreached<T>();
    }
    const bool owner = views_.view()->ring.owner(key) == self_ && known_epoch == 0;
    const auto first = views_.view()->ring.candidates(key, route.replicas);
    const bool replica = std::ranges::find(first, self_) != first.end() && known_epoch == 0;
    if (!owner && !route.failover_for && replica) ++replica_reads;
    if (!owner && !route.failover_for && !replica) {
      return PeerReply<T>{PeerOutcome::kNotOwner, error(StatusCode::kBusy, "not here"), epoch()};
    }
    ++served;
    return std::nullopt;
  }

  const WorkerId self_;
  const std::shared_ptr<MemorySource> store_;
  FakeViewSource& views_;
  std::mutex mutex_;                              // leaf
  std::map<Id128, uint64_t> copies_;              // progress of each
  std::set<std::pair<FileId, uint64_t>> cached_;  // parts, by offset
};

class FakeCluster {
 public:
  explicit FakeCluster(size_t workers) {
    for (size_t i = 0; i < workers; ++i) {
      peers_[worker_id(i)] = std::make_shared<FakePeer>(worker_id(i), store_, views_);
    }
    view_.cluster = "made";
    for (size_t i = 0; i < workers; ++i) {
      view_.workers[worker_id(i)] = {.id = worker_id(i), .address = fmt::format("w{}:1", i)};
    }
    set_ring(1);
  }

  MemorySource& store() { return *store_; }
  FakeViewSource& views() { return views_; }
  const PeerTable& table() const { return table_; }
  FakePeer& peer(const WorkerId& id) { return *peers_.at(id); }
  FakePeer& owner_of(PlacementKey key) { return peer(views_.view()->ring.owner(key)); }

  // Applies `change` to the view; all peers see it at once.
  template <class F>
  void change(F change) {
    change(view_);
    ++view_.revision;
    publish();
  }
  void set_ring(int64_t epoch) {
    std::vector<RingMember> members;
    for (const auto& [id, peer] : peers_) members.push_back({id, 1});
    change([&](ClusterView& view) { view.ring = Ring(epoch, members); });
  }
  void mount(const std::string& path, const std::string& prefix) {
    change([&](ClusterView& view) {
      view.mounts[path] = {.path = path,
                           .source = "memory://bucket/" + prefix,
                           .options = {},
                           .store = store_->id(),
                           .prefix = prefix};
    });
  }
  int requests() const {
    int all = 0;
    for (const auto& [id, peer] : peers_) all += peer->requests;
    return all;
  }

 private:
  void publish() {
    table_.update(view_);
    views_.set(view_);
  }

  const std::shared_ptr<MemorySource> store_ = std::make_shared<MemorySource>();
  FakeViewSource views_;
  std::map<WorkerId, std::shared_ptr<FakePeer>> peers_;
  PeerTable table_{[this](const WorkerInfo& info) { return peers_.at(info.id); }};
  ClusterView view_;
};

}  // namespace leat::testing
