// SPDX-License-Identifier: Apache-2.0
// JSON of the control socket, both ways: the server encodes, the command line decodes. Schemas are
// in docs/schemas. Unknown members are ignored and missing ones keep their defaults, so that
// neighbouring versions work together.
#pragma once

#include <optional>

#include "frontends/admin/daemon_api.h"
#include "http/json_fields.h"
#include "http/message.h"
#include "model/file_info.h"

namespace leat {

// Sums over the cached names below a directory.
struct TreeSum {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t cached_bytes = 0;
  // The sum may be incomplete: a directory was not listed yet, or there are too many names.
  bool partial = false;

  friend bool operator==(const TreeSum&, const TreeSum&) = default;
};

// A name in the answers of `ls` and `stat`.
struct EntryView {
  std::string name{};
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  std::string version{};  // empty for directories
  std::optional<WallTime> mtime{};
  std::optional<uint64_t> cached_bytes{};  // files, if requested and there is a cache
  std::optional<TreeSum> below{};          // directories, if requested

  friend bool operator==(const EntryView&, const EntryView&) = default;
};

struct ListView {
  std::string path{};
  FileKind kind = FileKind::kDirectory;  // kFile: `entries` is the file itself
  std::vector<EntryView> entries{};      // sorted by name
  std::string next{};                    // last name of the page; empty: no more
  uint64_t skipped = 0;                  // names of the directory that cannot be shown
};

struct StatView {
  EntryView entry{};
  std::string path{};
  std::string mount{};       // path of the mount; empty above all mounts
  std::string source{};      // URL of the object
  std::string fuse_mount{};  // mount point that shows it; empty above all mounts, and for a store
  // For a file: "kernel" if an open now would be served by the kernel alone (passthrough), "daemon"
  // otherwise; empty without a mount point.
  std::string served_by{};
};

// An object in the answer of `cache ls`; `mount` is empty if it is no longer mounted.
struct CachedObjectView {
  std::string key{};
  uint64_t size = 0;
  uint64_t cached_bytes = 0;
  std::string version{};
  std::string store{};  // StoreId, hexadecimal
  PoolId pool = PoolId::kNone;
  std::string mount{};
  bool packed = false;
  bool complete = false;
  std::string directory{};

  friend bool operator==(const CachedObjectView&, const CachedObjectView&) = default;
};

struct CachedListView {
  std::vector<CachedObjectView> objects{};
  std::string next{};  // continuation; empty: no more
};

Json to_json(const MountRequest& request);
Json to_json(const MountView& view);
Json to_json(const MountChange& change);
Json to_json(const MountMove& move);
Json to_json(const UnsentView& view);
Json to_json(const FlushRequest& request);
Json to_json(const FlushView& view);
Json to_json(const std::vector<UnavailableView>& stores);
Json to_json(const DaemonStatus& status);
Json to_json(const HistoryView& history);
Json to_json(const UpgradeRequest& request);
Json to_json(const JobRequest& request);
Json to_json(const JobView& job);
Json to_json(const TreeSum& sum);
Json to_json(const EntryView& entry);
Json to_json(const ListView& list);
Json to_json(const StatView& stat);
Json to_json(const CacheView& cache);
CachedObjectView view_of(const CachedObject& object, std::string mount);
Json to_json(const CachedObjectView& object);
Json to_json(const CachedListView& list);
Json to_json(const SnapshotView& snapshot);
Json to_json(const SnapshotUse& use);
Json to_json(const EvictRequest& request);
Json to_json(const EvictView& view);
Json to_json(const OptionView& option);
Json to_json(const ReloadView& view);
Json to_json(const ErrorView& failed);
Json to_json(const Finding& finding);

// kInvalidArgument names the bad member. T is one of the above.
template <class T>
Result<T> from_json(const Json& json);

// Text that is no JSON is kInvalidArgument; `what` names it in the message.
Result<Json> parse_json(const std::string& text, const char* what);
// Replaces bytes that are not UTF-8 by U+FFFD.
std::string dump_json(const Json& json, int indent = -1);

// Parses "022", at most 0777.
Result<mode_t> parse_umask(const std::string& text);

// "2026-01-02T03:04:05.678901234Z"; whole seconds have no fraction.
std::string format_time(WallTime time);
Result<WallTime> parse_time(const std::string& text);

HttpResponse error_response(const Status& status);
// Returns the Status in a daemon's answer; call it for all but 2xx.
Status status_of(const HttpResponse& response);

}  // namespace leat
