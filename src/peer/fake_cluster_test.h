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
#include "peer/writing/write_peer.h"
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
class FakePeer : public Peer, public WritePeer {
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
  std::atomic<int> lost_answers = 0;          // of next changes, which are made

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

  WritePeer* writes() override { return this; }
  Task<PeerReply<SourceObject>> write(Context context, PeerWrite request, PeerRoute route,
                                      std::span<const std::byte> content) override {
    const bool goes_on = request.piece && request.piece->offset != 0;
    if (goes_on) route.failover_for = self_;
    if (auto no = rejection<SourceObject>(owner_key(request.store, request.key), route)) {
      co_return *std::move(no);
    }
    std::string whole(reinterpret_cast<const char*>(content.data()), content.size());
    if (request.piece) {
      std::lock_guard lock(mutex_);
      std::string& written = written_[request.piece->write];
      written.resize(request.piece->offset);
      written += whole;
      whole = written;
      if (request.piece->step != WritePiece::Step::kComplete) {
        if (request.piece->step == WritePiece::Step::kAbort) written_.erase(request.piece->write);
        co_return after_change(SourceObject());
      }
      written_.erase(request.piece->write);
    }
    WriteRequest write{.key = request.key, .condition = request.condition};
    Result<SourceObject> written =
        co_await store_->write(context, std::move(write), std::as_bytes(std::span(whole)));
    co_return after_change(std::move(written));
  }
  Task<PeerReply<SourceObject>> change(Context context, PeerChange request,
                                       PeerRoute route) override {
    if (auto no = rejection<SourceObject>(owner_key(request.store, request.keys.back()), route)) {
      co_return *std::move(no);
    }
    Result<SourceObject> object = SourceObject();
    Result<> done;
    if (request.op == ChangeOp::kCopy) {
      CopyRequest copy{.from = request.keys[0], .to = request.keys[1]};
      copy.if_absent = request.exclusive;
      object = co_await store_->copy(context, std::move(copy));
    } else if (request.op == ChangeOp::kRename) {
      RenameRequest rename{.from = request.keys[0], .to = request.keys[1]};
      done = co_await store_->rename(context, std::move(rename));
    } else if (request.op == ChangeOp::kRemove) {
      done = co_await static_cast<Source&>(*store_).remove(context, {.keys = request.keys});
    }
    if (!done) object = Error(done.error());
    co_return after_change(std::move(object));
  }
  size_t unfinished_writes() {
    std::lock_guard lock(mutex_);
    return written_.size();
  }

 private:
  int64_t epoch() const {
    const int64_t known = known_epoch;
    return known != 0 ? known : views_.view()->ring.epoch();
  }
  template <class T>
  static PeerReply<T> unreached() {
    return {PeerOutcome::kUnreachable, error(StatusCode::kUnavailable, "made not to answer"), 0};
  }
  static PlacementKey owner_key(const StoreId& store, const std::string& key) {
    const auto slash = key.substr(0, key.size() - 1).rfind('/');
    return PlacementKey::listing(store, slash == std::string::npos ? "" : key.substr(0, slash + 1));
  }
  PeerReply<SourceObject> after_change(Result<SourceObject> object) {
    if (lost_answers == 0) return {PeerOutcome::kAnswered, std::move(object), epoch()};
    --lost_answers;
    PeerReply<SourceObject> lost = unreached<SourceObject>();
    lost.maybe_done = true;
    return lost;
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
  std::map<Id128, std::string> written_;          // in pieces, so far
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
                           .prefix = prefix,
                           .writing = StoreWriting{.writes = true,
                                                   .write_if_absent = true,
                                                   .write_if_version = true,
                                                   .copies = true,
                                                   .renames = true}};
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
