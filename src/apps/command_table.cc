// SPDX-License-Identifier: Apache-2.0
#include "apps/command_table.h"

#include <array>

namespace leat {
namespace {

constexpr std::array kCommands = {
    CommandEntry{"mount", "Show a store's prefix as a folder",
                 "leat mount s3://my-bucket/train /mnt/train\n"
                 "  leat mount 's3://b/x?endpoint=http://127.0.0.1:7070&region=us-east-1' /mnt/x",
                 &make_mount_command},
    CommandEntry{"umount", "Take a folder away again", "leat umount /mnt/train",
                 &make_umount_command},
    CommandEntry{"mounts", "List the mounts of this host's daemon, change or move one",
                 "leat mounts\n"
                 "  leat mounts set /mnt/train freshness=immutable quota=200GiB\n"
                 "  leat mounts set /mnt/train/labels pin=true\n"
                 "  leat mounts unset /mnt/train quota\n"
                 "  leat mounts move /mnt/train /mnt/data",
                 &make_mounts_command},
    CommandEntry{"ls", "List a folder or a store's prefix",
                 "leat ls -l /mnt/train\n  leat ls s3://my-bucket/train/", &make_ls_command},
    CommandEntry{"stat", "Say what is known of one name: version, source, cached bytes",
                 "leat stat /mnt/train/0001.png", &make_stat_command},
    CommandEntry{"cat", "Write a file's bytes to standard output",
                 "leat cat --offset 1MiB --size 4KiB /mnt/train/data.bin | xxd", &make_cat_command},
    CommandEntry{"cp", "Copy from the namespace or a store to local files",
                 "leat cp -r s3://my-bucket/train/ ./train", &make_cp_command},
    CommandEntry{"load", "Fetch everything below a path into the cache", "leat load /mnt/train",
                 &make_load_command},
    CommandEntry{"free", "Drop everything below a path from the cache", "leat free /mnt/train",
                 &make_free_command},
    CommandEntry{"refresh", "Ask the store now what has changed below a path, and say it",
                 "leat refresh /mnt/train", &make_refresh_command},
    CommandEntry{"cache", "List, verify, evict, move or format what is cached",
                 "leat cache ls --mount /mnt/train\n  leat cache verify\n"
                 "  leat cache evict --mount /mnt/old --all\n"
                 "  leat cache move /mnt/hdd/leat /mnt/nvme/leat",
                 &make_cache_command},
    CommandEntry{"snapshot", "Listings of whole data sets: build, compare, use, share",
                 "leat snapshot build /mnt/train --name monday --use\n"
                 "  leat snapshot diff monday tuesday\n  leat snapshot release /mnt/train",
                 &make_snapshot_command},
    CommandEntry{"status", "Show the daemon, its cache and its counters", "leat status",
                 &make_status_command},
    CommandEntry{"jobs", "List running and ended jobs, or cancel one",
                 "leat jobs\n  leat jobs cancel 3", &make_jobs_command},
    CommandEntry{"doctor",
                 "Say what Leat can use on this host, what it cannot, and what that costs",
                 "leat doctor\n  sudo leat doctor --fix", &make_doctor_command},
    CommandEntry{"bench", "Measure reading of a file or a tree",
                 "leat bench io --threads 4 --block 1MiB /mnt/train", &make_bench_command},
    CommandEntry{"upgrade", "Let a new version take over, under the programs that read",
                 "leat upgrade\n  leat upgrade /opt/leat-next/bin/leat", &make_upgrade_command},
    CommandEntry{"version", "Say which version this is", "leat version", &make_version_command},
    CommandEntry{"daemon", "Run the host's daemon in the foreground; mount starts it by itself",
                 "leat daemon --set cache.size=100GiB", &make_daemon_command, true},
};

}  // namespace

std::span<const CommandEntry> command_table() {
  return kCommands;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : kCommands) names.emplace_back(entry.name);
  return names;
}

}  // namespace leat
