// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command_table.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "config/paths.h"

namespace leat {
namespace {

std::string directory_line(const DirectoryStats& directory) {
  const PageStoreStats& stats = directory.stats;
  std::string text =
      fmt::format("{}, {} of {} used, {}, {}", directory.path, format_bytes(stats.used_bytes),
                  format_bytes(stats.capacity_bytes), pluralize(stats.files, "file"),
                  pluralize(stats.packed_objects, "packed object"));
  if (directory.state != DirectoryState::kNormal) {
    text = fmt::format("{}, {}: {}", directory.path, to_string(directory.state), directory.why);
  }
  if (stats.rejected_bytes != 0) {
    text += fmt::format(", {} rejected for lack of space", format_bytes(stats.rejected_bytes));
  }
  if (stats.corrupt_blocks != 0) text += ", " + pluralize(stats.corrupt_blocks, "corrupt block");
  return text;
}

std::string pool_line(const PoolStats& pool) {
  const PoolPolicy& policy = pool.policy;
  std::string text = fmt::format("{} of {}", format_bytes(pool.used_bytes),
                                 policy.name.empty() ? "unmounted mounts" : policy.name);
  if (policy.quota_bytes != 0) text += fmt::format(", quota {}", format_bytes(policy.quota_bytes));
  if (policy.ttl.count() != 0) text += fmt::format(", ttl {}", format_duration(policy.ttl));
  if (policy.priority != Priority::kNormal) {
    text += fmt::format(", {} priority", to_string(policy.priority));
  }
  if (policy.pinned) text += ", pinned";
  if (pool.cyclic) text += ", read by epochs";
  return text;
}

// "3 workers, 1 of them down"
std::string workers_of(const ClusterMembershipView& cluster) {
  std::string text = pluralize(cluster.workers, "worker");
  const auto of_them = [&](uint64_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} of them {}", count, what);
  };
  of_them(cluster.draining, "draining");
  of_them(cluster.down, "down");
  of_them(cluster.unresponsive, "unresponsive");
  of_them(cluster.refusing, "rejecting this worker's requests");
  if (cluster.workers > 0 && cluster.leader.empty()) text += ", no leader";
  return text;
}

std::string unavailable_line(const UnavailableView& store) {
  const auto lasting = std::chrono::seconds(static_cast<int64_t>(store.seconds));
  return fmt::format(
      "{} does not answer, for {} now; {} for it: {}", store.store, format_duration(lasting),
      store.waiting == 1 ? "1 request waits" : fmt::format("{} requests wait", store.waiting),
      store.reason);
}

std::string cluster_line(const ClusterMembershipView& cluster) {
  std::string text;
  if (cluster.role == "worker") {
    text = fmt::format("worker {} of '{}' at {}{}, {:.1f} % of it; {}", cluster.worker.substr(0, 8),
                       cluster.name, cluster.address,
                       cluster.worker == cluster.leader ? ", leads" : "", 100 * cluster.share,
                       workers_of(cluster));
  } else {
    text =
        fmt::format("client of '{}' at {}; {}", cluster.name, cluster.address, workers_of(cluster));
  }
  text += fmt::format("; {}", pluralize(cluster.mounts, "mount"));
  if (cluster.mounts_rejected > 0) {
    text += fmt::format(", {} not served here", cluster.mounts_rejected);
  }
  if (!cluster.trouble.empty()) text += "; " + cluster.trouble;
  return text;
}

class StatusCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_flag("--counters", counters_, "Also show all counters");
  }

  CommandResult<> run() override {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get("/v1/status"));
    if (json) {
      print_json(answer);
      return {};
    }
    LEAT_TRY(DaemonStatus status, from_json<DaemonStatus>(answer));
    TextTable table("ll");
    auto uptime = std::chrono::seconds(static_cast<int64_t>(status.uptime_seconds));
    std::string daemon =
        fmt::format("leat {}, pid {}, up {}", status.version, status.pid, format_duration(uptime));
    if (status.supervisor_pid == 0) daemon += ", without a supervisor";
    if (status.restarts > 0) daemon += fmt::format(", started {} times", status.restarts + 1);
    table.add({"daemon", daemon});
    table.add(
        {"memory",
         fmt::format("{} resident, {} of {} in buffers", format_bytes(status.rss_bytes),
                     format_bytes(status.memory_bytes), format_bytes(status.memory_bytes_max))});
    table.add({"files", fmt::format("{} of {} open", status.open_files, status.open_files_max)});
    for (const DirectoryStats& directory : status.cache.directories) {
      table.add({"cache", directory_line(directory)});
    }
    for (const PoolStats& pool : status.cache.pools) {
      if (pool.used_bytes > 0) table.add({"", pool_line(pool)});
    }
    table.add({"metrics", status.metrics_address.empty()
                              ? status.metrics_note
                              : fmt::format("http://{}/metrics", status.metrics_address)});
    table.add({"log", status.log_file.empty() ? "standard error" : status.log_file});
    for (const MountView& mount : status.mounts) {
      table.add({"mount", fmt::format("{} on {}", mount.source, mount.path)});
    }
    for (const auto& cluster : status.clusters) table.add({"cluster", cluster_line(cluster)});
    for (const auto& store : status.unavailable) table.add({"away", unavailable_line(store)});
    print(table.to_string());
    if (counters_) show_counters(status);
    return {};
  }

 private:
  static void show_counters(const DaemonStatus& status) {
    TextTable table("lr");
    for (const auto& [name, value] : status.counters) table.add({name, fmt::format("{}", value)});
    print("\n" + table.to_string());
  }

  bool counters_ = false;
};

}  // namespace

std::unique_ptr<Command> make_status_command() {
  return std::make_unique<StatusCommand>();
}

}  // namespace leat
