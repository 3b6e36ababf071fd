// SPDX-License-Identifier: Apache-2.0
// Load of the registry: records by the real codecs, as they travel through etcd's JSON gateway; the
// work of one worker for each change; and a start of all workers at once, by the leader's own plan
// of rings.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/base64.h"
#include "cluster/election.h"
#include "cluster/etcd_codec.h"
#include "cluster/registry_session.h"
#include "cluster/registry_view_source.h"
#include "cluster/ring_plan.h"
#include "cluster/ring_updater.h"
#include "runtime/executor.h"
#include "runtime/shared_promise.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/parts.h"

namespace leat::scale {
namespace {

// A change as etcd's gateway streams it to a watch.
std::string watch_line(const RegistryEntry& entry) {
  return fmt::format(
      R"({{"result":{{"header":{{"cluster_id":"14841639068965178418","member_id":)"
      R"("10276657743932975437","revision":"{0}","raft_term":"2"}},"events":[{{"kv":{{"key":"{1}",)"
      R"("create_revision":"{0}","mod_revision":"{0}","version":"1","value":"{2}",)"
      R"("lease":"7587862094884163590"}}}}]}}}})"
      "\n",
      entry.changed, base64("leat/train/" + entry.key), base64(entry.value));
}

RegistryEntry entry_of(const RegistryView& entries, std::string_view key_begins) {
  for (const RegistryEntry& entry : entries.entries) {
    if (entry.key.starts_with(key_begins)) return entry;
  }
  fail(fmt::format("no {}", key_begins));
}

// Sends one worker after the other to a watch, `events` times, and then nothing.
class ReplayRegistry : public Registry {
 public:
  ReplayRegistry(RegistryView entries, uint64_t events)
      : entries_(std::move(entries)), events_(events) {}

  Task<Result<RegistryView>> list(Context, std::string) override { co_return entries_; }
  Task<Result<RegistryRevision>> commit(Context, RegistryChange) override { co_return no(); }
  Task<Result<RegistryLease>> grant(Context, std::chrono::seconds) override { co_return no(); }
  Task<Result<std::chrono::seconds>> keep_alive(Context, RegistryLease) override { co_return no(); }
  Task<Result<>> revoke(Context, RegistryLease) override { co_return no(); }
  Task<Result<>> watch(Context context, std::string, RegistryRevision after,
                       RegistrySink sink) override {
    const Stopwatch watch;
    for (uint64_t i = 0; i < events_; ++i) {
      RegistryEntry entry = entries_.entries[i % entries_.entries.size()];
      entry.changed = ++after;
      const std::string line = watch_line(entry);
      LEAT_CO_TRY(etcd::WatchAnswer answer, etcd::watch_answer(line));
      RegistryEvents replayed{.events = std::move(answer.events.events), .revision = after};
      for (RegistryEvent& event : replayed.events) event.entry.key.erase(0, kPrefix.size());
      LEAT_CO_CHECK_OK(co_await sink(std::move(replayed)));
    }
    if (events_ > 0) seconds_of_event = watch.cpu_seconds() / double(events_);
    events_ = 0;
    done->set(true);
    Result<> slept = co_await sleep_for(context, std::chrono::hours(1));
    co_return slept ? no() : Error(slept.error());
  }

  double seconds_of_event = 0;
  const std::shared_ptr<SharedPromise<bool>> done = SharedPromise<bool>::make();

 private:
  static constexpr std::string_view kPrefix = "leat/train/";
  static Error no() { return error(StatusCode::kUnsupported, "replay only"); }

  const RegistryView entries_;
  uint64_t events_;
};

double seconds_of_event(const RegistryView& entries, uint64_t events) {
  Executor executor({.threads = 1});
  ReplayRegistry registry(entries, events);
  auto map = RegistryViewSource::start(registry, {.cluster = "train"}, executor);
  must(executor.block_on(registry.done->wait(Context::background(), "the changes")));
  executor.block_on(map->stop());
  return registry.seconds_of_event;
}

template <class Call>
double seconds_of(uint64_t repeats, Call call) {
  const Stopwatch watch;
  for (uint64_t i = 0; i < repeats; ++i) call();
  return watch.cpu_seconds() / double(repeats);
}

struct Sizes {
  double worker_line, ring_line, view;
  double event_s;             // of a worker
  double encode_s, decode_s;  // of the view
};

Sizes print_records(const Setting& setting) {
  begin_part("registry: records");
  const RegistryView entries =
      synthetic_entries(equal_capacities(setting.workers, setting.capacity_bytes));
  const RegistryEntry worker = entry_of(entries, kWorkerKeys), ring = entry_of(entries, kRingKey);
  Sizes sizes{};
  sizes.worker_line = double(watch_line(worker).size());
  sizes.ring_line = double(watch_line(ring).size());
  print_bytes("a worker's record", double(worker.value.size()));
  print_bytes("the same as a watch receives it", sizes.worker_line);
  print_bytes("the ring's record, with the ring before", double(ring.value.size()));
  print_bytes("the same as a watch receives it", sizes.ring_line);
  const RegistryChange change{.conditions = {}, .puts = {{ring.key, ring.value}}};
  const double request = double(etcd::commit_request(change).size());
  print_bytes("the request that writes it", request);
  const double member = double(ring.value.size()) / (2 * double(setting.workers));
  print_bytes("a member in it", member);
  print_number("workers with which it is over Registry::kValueBytesMax",
               double(Registry::kValueBytesMax) / (2 * member));
  double all = 0;
  for (const RegistryEntry& entry : entries.entries) all += double(entry.value.size());
  print_bytes("all records of the cluster", all);

  const ClusterView view = view_of(entries, "train");
  const std::string text = encode_view(view);
  sizes.view = double(text.size());
  print_bytes("the view as clients get it", sizes.view);
  sizes.encode_s = seconds_of(setting.repeats, [&] { static_cast<void>(encode_view(view)); });
  print_seconds("the view written", sizes.encode_s);
  sizes.decode_s = seconds_of(setting.repeats, [&] { must(decode_view(text)); });
  print_seconds("the view read", sizes.decode_s);
  const uint64_t before = heap_bytes();
  const ClusterView copy = must(decode_view(text));
  print_bytes("heap of a view", double(heap_bytes() - before));
  sizes.event_s = seconds_of_event(entries, setting.repeats);
  print_seconds("one change followed by a worker, from etcd's line to the new view", sizes.event_s);
  return sizes;
}

void print_steady(const Setting& setting, const Sizes& sizes) {
  const double workers = double(setting.workers);
  const double ttl = double(RegistrySessionOptions().ttl.count());
  begin_part("registry: while nothing changes");
  print_number("leases kept alive", workers / (ttl / 3), "requests/s");
  print_bytes("body of such a request", double(etcd::lease_request(7587862094884163590).size()));
  print_number("raft writes", 0, "/s");
  print_number("open watches (the cluster's entries, and the leader's for the election)",
               2 * workers);
  begin_part("registry: one worker restarts");
  print_number("raft writes (a lease revoked and granted, a record; no ring)", 3);
  print_bytes("sent to all watches", 2 * workers * sizes.worker_line);
  print_number("views that each client gets", 2);
  print_bytes("sent to all clients", 2 * double(setting.clients) * sizes.view);
  print_bytes("of that from each worker", 2 * double(setting.clients) / workers * sizes.view);
  begin_part("registry: all workers are restarted one by one within an hour");
  print_number("changes", 2 * workers / 3600, "/s");
  print_share("of a core at each worker, to follow them", 2 * workers / 3600 * sizes.event_s);
  print_bytes("to each client", 2 * workers / 3600 * sizes.view, "/s");
  begin_part("registry: the leader dies");
  print_number("claims written at once, of which one holds", workers - 1);
}

struct Start {
  uint64_t rings = 0;
  double ring_bytes = 0;        // of all rings' records
  double ring_lines_bytes = 0;  // as one watch receives them
};

// Workers join evenly; the leader waits `settle` after a change, and writes; `rest`: see RingPlan.
Start start_of_all(const Setting& setting, double seconds, Clock::duration rest) {
  const double settle = std::chrono::duration<double>(RingUpdaterOptions().debounce).count();
  RingPlan plan(RingUpdaterOptions().absence_timeout, rest);
  Start start;
  RingRecord now;
  std::map<WorkerId, WorkerInfo> there;
  const Clock::time_point begun = Clock::now();
  for (double at = settle; now.members.size() < setting.workers; at += settle) {
    const auto come = static_cast<uint64_t>(std::min(1.0, at / seconds) * double(setting.workers));
    for (uint64_t i = there.size(); i < come; ++i) {
      const WorkerInfo worker = synthetic_worker(i, setting.capacity_bytes);
      there[worker.id] = worker;
    }
    const auto time =
        begun + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(at));
    auto next = plan.next(now, static_cast<RegistryRevision>(start.rings), there, time);
    if (!next) continue;
    now = *std::move(next);
    ++start.rings;
    const RegistryEntry entry{.key = std::string(kRingKey),
                              .value = encode_ring(now),
                              .changed = static_cast<RegistryRevision>(start.rings)};
    start.ring_bytes += double(entry.value.size());
    start.ring_lines_bytes += double(watch_line(entry).size());
  }
  return start;
}

void print_start(const Setting& setting, const Sizes& sizes, double seconds, Clock::duration rest) {
  const bool rests = rest > Clock::duration(0);
  begin_part(fmt::format("registry: all workers start within {}{}", seconds_text(seconds),
                         rests ? "" : ", without a rest between rings"));
  const double workers = double(setting.workers);
  const Start start = start_of_all(setting, seconds, rest);
  const double changes = workers + double(start.rings);
  print_number("rings written", double(start.rings));
  print_bytes("of them into etcd's log", start.ring_bytes);
  print_number("raft writes (a lease and a record each, and rings)",
               (2 * workers + double(start.rings)) / seconds, "/s");
  const double sent = workers * (workers * sizes.worker_line + start.ring_lines_bytes);
  print_bytes("sent to all watches", sent);
  print_bytes("from etcd, meanwhile", sent / seconds, "/s");
  print_share("of a core at each worker, to follow it (as if all were there from the start)",
              changes / seconds * sizes.event_s);
  if (!rests) return;
  print_number("views that each client could get", changes);
  print_bytes("from each worker to its clients, at most",
              changes * double(setting.clients) / workers * sizes.view / seconds, "/s");
  print_share("of a core at each worker, to write these views once each, at most",
              changes * sizes.encode_s / seconds);
  print_share("of a core at each client, to read them, at most",
              changes * sizes.decode_s / seconds);
}

}  // namespace

void run_registry(const Setting& setting) {
  const Sizes sizes = print_records(setting);
  print_steady(setting, sizes);
  for (const double seconds : {60.0, 600.0}) {
    print_start(setting, sizes, seconds, RingUpdaterOptions().interval_per_member);
    print_start(setting, sizes, seconds, Clock::duration(0));
  }
}

}  // namespace leat::scale
