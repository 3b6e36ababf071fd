// SPDX-License-Identifier: Apache-2.0
// Load of a real etcd: one member on this machine, with our own client. Its CPU is read from /proc,
// so ours does not count. Rates and latencies of one member beside its clients on two cores
// say nothing about three on their own.
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cluster/etcd_registry.h"
#include "runtime/executor.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/parts.h"

namespace leat::scale {
namespace {

uint16_t free_port() {
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(one, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      getsockname(one, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail("no port");
  }
  close(one);
  return ntohs(address.sin_port);
}

// Ends with the object, and its folder too.
class EtcdMember {
 public:
  EtcdMember(const std::string& program, const std::string& folder)
      : port(free_port()), data_(fmt::format("{}/leat_scale_etcd_{}", folder, getpid())) {
    const std::string client = fmt::format("http://127.0.0.1:{}", port);
    const std::string peer = fmt::format("http://127.0.0.1:{}", free_port());
    const std::vector<std::string> words = {program,
                                            "--data-dir",
                                            data_,
                                            "--listen-client-urls",
                                            client,
                                            "--advertise-client-urls",
                                            client,
                                            "--listen-peer-urls",
                                            peer,
                                            "--initial-advertise-peer-urls",
                                            peer,
                                            "--initial-cluster",
                                            "default=" + peer,
                                            "--logger",
                                            "zap",
                                            "--log-level",
                                            "error"};
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    if (posix_spawn(&pid_, program.c_str(), nullptr, nullptr, pointers.data(), environ) != 0) {
      fail(fmt::format("cannot run {}", program));
    }
  }
  ~EtcdMember() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(data_);
  }

  double cpu_seconds() const {
    std::ifstream file(fmt::format("/proc/{}/stat", pid_));
    std::string word;
    double ticks = 0;
    for (int field = 1; file >> word; ++field) {
      if (field == 14 || field == 15) ticks += std::strtod(word.c_str(), nullptr);
    }
    return ticks / double(sysconf(_SC_CLK_TCK));
  }
  double resident_bytes() const {
    std::ifstream file(fmt::format("/proc/{}/statm", pid_));
    double all = 0, resident = 0;
    file >> all >> resident;
    return resident * double(sysconf(_SC_PAGESIZE));
  }

  const uint16_t port;

 private:
  const std::string data_;
  pid_t pid_ = 0;
};

struct EtcdInstance {
  EtcdMember member;
  Executor executor{{.threads = 2}};
  std::unique_ptr<EtcdRegistry> registry;

  explicit EtcdInstance(const Setting& setting) : member(setting.etcd, setting.folder) {
    EtcdOptions options{.endpoints = {{{}, "127.0.0.1", member.port}}, .prefix = "/leat/train/"};
    options.request_timeout = std::chrono::seconds(30);
    registry = EtcdRegistry::create(std::move(options));
    for (int attempt = 0; attempt < 100; ++attempt) {
      if (executor.block_on(registry->list(Context::background(), "none"))) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    fail("etcd does not answer");
  }
  ~EtcdInstance() { executor.block_on(registry->stop()); }
};

// Returns the CPU of etcd for one call.
template <class Call>
double cpu_of(EtcdInstance& etcd, uint64_t count, Call call) {
  const double before = etcd.member.cpu_seconds();
  for (uint64_t i = 0; i < count; ++i) call(i);
  return (etcd.member.cpu_seconds() - before) / double(count);
}

void print_leases(EtcdInstance& etcd, const Setting& setting) {
  const Context context = Context::background();
  std::vector<RegistryLease> leases;
  for (uint64_t i = 0; i < setting.workers; ++i) {
    leases.push_back(
        must(etcd.executor.block_on(etcd.registry->grant(context, std::chrono::seconds(600)))));
  }
  const double cpu = cpu_of(etcd, 10 * leases.size(), [&](uint64_t i) {
    must(etcd.executor.block_on(etcd.registry->keep_alive(context, leases[i % leases.size()])));
  });
  print_seconds("CPU of etcd for one lease kept alive", cpu);
  print_share("of a core, for all workers", cpu * double(setting.workers) / (10.0 / 3));
  const double put = cpu_of(etcd, leases.size(), [&](uint64_t i) {
    const WorkerInfo worker = synthetic_worker(i, setting.capacity_bytes);
    RegistryChange change{.conditions = {},
                          .puts = {{worker_key(worker.id), encode_worker(worker), leases[i]}}};
    must(etcd.executor.block_on(etcd.registry->commit(context, std::move(change))));
  });
  print_seconds("CPU of etcd for one worker's record, without watches", put);
}

struct ReceivedEvents {
  std::atomic<uint64_t> events = 0, established = 0;
};

Task<Result<>> receive(ReceivedEvents* received, RegistryEvents changes) {
  if (changes.events.empty()) ++received->established;
  received->events += changes.events.size();
  co_return Result<>();
}

Task<> watch_one(Context context, EtcdRegistry* registry, RegistryRevision after,
                 ReceivedEvents* received) {
  RegistrySink sink = [received](RegistryEvents changes) {
    return receive(received, std::move(changes));
  };
  Result<> ended = co_await registry->watch(context, "cluster/", after, std::move(sink));
  static_cast<void>(ended);
}

void wait_for(const std::atomic<uint64_t>& counted, uint64_t wanted) {
  while (counted < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Returns the CPU of etcd to send one of `count` changes of an entry to one watch.
double cpu_of_notification(EtcdInstance& etcd, ReceivedEvents& received, uint64_t watches,
                           uint64_t count, const std::string& key, const std::string& value) {
  return cpu_of(etcd, count,
                [&](uint64_t) {
                  const uint64_t before = received.events;
                  RegistryChange change{.conditions = {}, .puts = {{key, value}}};
                  must(etcd.executor.block_on(
                      etcd.registry->commit(Context::background(), std::move(change))));
                  wait_for(received.events, before + watches);
                }) /
         double(watches);
}

void print_watches(EtcdInstance& etcd, const Setting& setting) {
  const uint64_t watches = setting.workers / 5;
  ReceivedEvents received;
  std::stop_source stop;
  const RegistryView now =
      must(etcd.executor.block_on(etcd.registry->list(Context::background(), "cluster/")));
  const double resident = etcd.member.resident_bytes();
  for (uint64_t i = 0; i < watches; ++i) {
    etcd.executor.spawn(watch_one(Context::background().with_cancel(stop.get_token()),
                                  etcd.registry.get(), now.revision, &received));
  }
  wait_for(received.established, watches);
  print_number("open watches", double(watches));
  print_bytes("memory of etcd for one of them",
              (etcd.member.resident_bytes() - resident) / double(watches));
  const WorkerInfo worker = synthetic_worker(0, setting.capacity_bytes);
  const double record = cpu_of_notification(etcd, received, watches, setting.repeats,
                                            worker_key(worker.id), encode_worker(worker));
  print_seconds("CPU of etcd to send a worker's record to one watch", record);
  RingRecord ring{.members = synthetic_members(equal_capacities(setting.workers, kTiB))};
  ring.previous = ring.members;
  ring.previous_epoch = 1;
  const double notify_s = cpu_of_notification(etcd, received, watches, setting.repeats / 2 + 1,
                                              std::string(kRingKey), encode_ring(ring));
  print_seconds("CPU of etcd to send the ring to one watch", notify_s);
  print_seconds("CPU of etcd to send one ring to all workers", notify_s * double(setting.workers));
  stop.request_stop();
}

}  // namespace

void run_etcd(const Setting& setting) {
  if (setting.etcd.empty()) fail("--etcd names the program to run");
  begin_part("etcd: one member of a real one");
  EtcdInstance etcd(setting);
  print_leases(etcd, setting);
  print_watches(etcd, setting);
}

}  // namespace leat::scale
