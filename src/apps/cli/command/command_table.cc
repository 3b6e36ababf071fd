// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command/command_table.h"

#include <array>

namespace leat {
namespace {

constexpr const char* kFolders = "Folders";
constexpr const char* kData = "Data";
constexpr const char* kCache = "Cache";
constexpr const char* kCluster = "Cluster";
constexpr const char* kOperation = "Operation";

constexpr std::array kCommands = {
    CommandEntry{"mount", kFolders, "Show a store's prefix as a folder",
                 "leat mount s3://my-bucket/train /mnt/train\n"
                 "  leat mount 's3://my-bucket/x?endpoint=http://127.0.0.1:7070&region=us-east-1' "
                 "/mnt/x\n"
                 "  leat mount list\n"
                 "  leat mount set /mnt/train quota=200GiB",
                 &make_mount_command},
    CommandEntry{"umount", kFolders, "Unmount a folder", "leat umount /mnt/train",
                 &make_umount_command},
    CommandEntry{"mounts", kFolders,
                 "List the mounts of this host's daemon, add, change, move or remove one",
                 "leat mounts\n"
                 "  leat mounts add s3://my-bucket/val /mnt/val --profile training\n"
                 "  leat mounts set /mnt/train freshness=immutable quota=200GiB\n"
                 "  leat mounts set /mnt/train/labels pin=true\n"
                 "  leat mounts unset /mnt/train quota\n"
                 "  leat mounts move /mnt/train /mnt/data",
                 &make_mounts_command},
    CommandEntry{"ls", kData, "List a folder or a store's prefix",
                 "leat ls -l /mnt/train\n  leat ls s3://my-bucket/train/", &make_ls_command},
    CommandEntry{"du", kData, "Sum up a tree: bytes, files and cached share",
                 "leat du /mnt/train\n  leat du --depth 2 /mnt/train\n"
                 "  leat du --depth 0 s3://my-bucket/train/",
                 &make_du_command},
    CommandEntry{"stat", kData, "Show one name: version, source, FUSE mount, cached share",
                 "leat stat /mnt/train/0001.png", &make_stat_command},
    CommandEntry{"cat", kData, "Write a file's bytes to standard output",
                 "leat cat --offset 1MiB --size 4KiB /mnt/train/data.bin | xxd", &make_cat_command},
    CommandEntry{"cp", kData, "Copy files between folders, stores and this machine",
                 "leat cp -r s3://my-bucket/train/ ./train\n"
                 "  leat cp -r --update --exclude '*.tmp' ./results s3://my-bucket/results",
                 &make_cp_command},
    CommandEntry{"load", kCache, "Fetch files below a path into the cache",
                 "leat load /mnt/train\n"
                 "  leat load --include 'part-00*/**' --bandwidth 200MiB /mnt/train\n"
                 "  leat load --files-from epoch.txt --verify --background /mnt/train",
                 &make_load_command},
    CommandEntry{"free", kCache, "Remove files below a path from the cache",
                 "leat free /mnt/train\n  leat free --exclude 'labels/' /mnt/train",
                 &make_free_command},
    CommandEntry{"pin", kCache, "Protect cached files of a path from eviction",
                 "leat pin --load /mnt/train/labels\n  leat pin", &make_pin_command},
    CommandEntry{"unpin", kCache, "Let what is cached of a path be evicted again",
                 "leat unpin /mnt/train/labels", &make_unpin_command},
    CommandEntry{"refresh", kCache, "Check the store for changes below a path, and list them",
                 "leat refresh /mnt/train", &make_refresh_command},
    CommandEntry{"flush", kCache, "Wait until the store has what was written below a path",
                 "leat flush /mnt/train/checkpoints\n  leat flush", &make_flush_command},
    CommandEntry{"cache", kCache, "List, verify, evict, move or format the cache",
                 "leat cache ls --mount /mnt/train\n  leat cache verify\n"
                 "  leat cache evict --mount /mnt/old --all\n"
                 "  leat cache move /mnt/hdd/leat /mnt/nvme/leat",
                 &make_cache_command},
    CommandEntry{"snapshot", kCache, "Build, compare, use and share listings of whole data sets",
                 "leat snapshot build /mnt/train --name monday --use\n"
                 "  leat snapshot diff monday tuesday\n  leat snapshot release /mnt/train",
                 &make_snapshot_command},
    CommandEntry{"worker", kCluster, "Run this host's daemon as a worker of a cluster",
                 "leat worker --registry http://etcd1:2379,http://etcd2:2379 --listen "
                 "10.0.0.7:7480 --cache-dir /nvme/leat",
                 &make_worker_command},
    CommandEntry{"cluster", kCluster,
                 "Show a cluster, mount, load and copy in it, drain a worker, make tokens, "
                 "try one",
                 "leat cluster\n"
                 "  leat cluster mount s3://my-bucket/train /data/train -o region=us-east-1\n"
                 "  leat cluster load /data/train --every 1d --on-change\n"
                 "  leat cluster cp /data/train/ s3://my-bucket/copy/\n"
                 "  leat cluster jobs\n"
                 "  leat cluster umount /data/train\n"
                 "  leat cluster secret cluster.secret\n"
                 "  leat cluster token alice.token --principal alice --read /data\n"
                 "  leat cluster dev 3 --mount s3://my-bucket/train /mnt/cluster",
                 &make_cluster_command},
    CommandEntry{"status", kOperation, "Show the daemon, its cache and its counters", "leat status",
                 &make_status_command},
    CommandEntry{"top", kOperation, "Show the daemon's activity, live",
                 "leat top --once\n  leat top --interval 5s", &make_top_command},
    CommandEntry{"jobs", kCache, "List running and ended jobs, or cancel one",
                 "leat jobs\n  leat jobs cancel 3", &make_jobs_command},
    CommandEntry{"console", kOperation, "Print or open the address of the web console",
                 "leat console\n  leat console --open", &make_console_command},
    CommandEntry{"doctor", kOperation,
                 "Check this host and its stores: missing features, their cost, and fixes",
                 "leat doctor\n  leat doctor s3://my-bucket/train\n  sudo leat doctor --fix",
                 &make_doctor_command, false, true},
    CommandEntry{"trace", kOperation,
                 "Show where the time of a read is spent, from folder to store",
                 "leat trace /mnt/train/data.bin\n"
                 "  leat trace --offset 1MiB --size 4KiB --otlp trace.json /mnt/train/data.bin",
                 &make_trace_command},
    CommandEntry{"logs", kOperation, "Show the daemon's log",
                 "leat logs --level warning\n  leat logs -n 200", &make_logs_command},
    CommandEntry{"support-bundle", kOperation, "Write a file with diagnostics, without secrets",
                 "leat support-bundle\n  leat support-bundle host7.tar.gz",
                 &make_support_bundle_command},
    CommandEntry{"config", kOperation, "Show, check and reload the daemon's options",
                 "leat config show --changed\n"
                 "  leat config check /etc/leat/leat.toml\n"
                 "  leat config reload",
                 &make_config_command},
    CommandEntry{"bench", kOperation, "Measure the read speed of a file or a tree",
                 "leat bench io --threads 4 --block 1MiB /mnt/train", &make_bench_command},
    CommandEntry{"upgrade", kOperation, "Let a new version take over, without interrupting reads",
                 "leat upgrade\n  leat upgrade /opt/leat-next/bin/leat", &make_upgrade_command},
    CommandEntry{"version", kOperation, "Print the version", "leat version", &make_version_command,
                 false, true},
    CommandEntry{"completion", kOperation, "Print the completion script of a shell",
                 "leat completion fish > ~/.config/fish/completions/leat.fish\n"
                 "  source <(leat completion bash)",
                 &make_completion_command, false, true},
    CommandEntry{"complete", kOperation, "List completions of a command line",
                 "leat complete --line 'leat mo'", &make_complete_command, true, true},
    CommandEntry{"reference", kOperation, "Describe all commands and options, as JSON",
                 "leat reference", &make_reference_command, true, true},
    CommandEntry{"daemon", kOperation,
                 "Run the host's daemon in the foreground; mount starts it automatically",
                 "leat daemon --set cache.size=100GiB", &make_daemon_command, true},
};

}  // namespace

std::span<const CommandEntry> command_table() {
  return kCommands;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : kCommands) {
    if (!entry.hidden) names.emplace_back(entry.name);
  }
  return names;
}

}  // namespace leat
