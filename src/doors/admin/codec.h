// SPDX-License-Identifier: Apache-2.0
// The JSON of the control socket, both ways: the door encodes what the command line decodes. The
// schemas stand in docs/schemas. Unknown members are ignored, missing ones keep their defaults, so
// that neighbouring versions understand each other.
#pragma once

#include <optional>

#include "doors/admin/host.h"
#include "http/json_fields.h"
#include "http/message.h"
#include "model/file_info.h"

namespace leat {

// Sums over the files below a directory whose names the daemon has in memory.
struct TreeSum {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t cached_bytes = 0;
  // There may be more below it: a directory was not listed yet, or there are too many names.
  bool partial = false;

  friend bool operator==(const TreeSum&, const TreeSum&) = default;
};

// What `ls` and `stat` say of a name.
struct EntryView {
  std::string name{};
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  std::string version{};  // empty for directories
  std::optional<WallTime> mtime{};
  std::optional<uint64_t> cached_bytes{};  // files, where it was asked for and there is a cache
  std::optional<TreeSum> below{};          // directories, where it was asked for

  friend bool operator==(const EntryView&, const EntryView&) = default;
};

struct ListView {
  std::string path{};
  FileKind kind = FileKind::kDirectory;  // kFile: `entries` is the file itself
  std::vector<EntryView> entries{};      // sorted by name
  std::string next{};                    // name to go on after; empty: that was all
  uint64_t left_out = 0;                 // names of the directory that cannot be shown
};

struct StatView {
  EntryView entry{};
  std::string path{};
  std::string mount{};   // path of the mount, empty above all mounts
  std::string source{};  // URL of the object
  std::string door{};    // folder whose door shows it; empty above all mounts, and of a store
  // Of a file: "kernel" where an open of now would be read by the kernel alone (passthrough),
  // "daemon" where that answers; empty without a door.
  std::string read_by{};
};

// What `cache ls` says of an object; `mount` is empty for mounts that are gone.
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
  std::string next{};  // to go on with; empty: that was all
};

Json to_json(const MountRequest& request);
Json to_json(const MountView& view);
Json to_json(const MountChange& change);
Json to_json(const MountMove& move);
Json to_json(const std::vector<UnavailableView>& stores);
Json to_json(const HostStatus& status);
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

// kInvalidArgument says which member is wrong. T is one of the above.
template <class T>
Result<T> from_json(const Json& json);

// Text that is no JSON is kInvalidArgument; `what` names it.
Result<Json> parse_json(const std::string& text, const char* what);
// Names that are not UTF-8 get U+FFFD in place of what is not.
std::string dump_json(const Json& json, int indent = -1);

// "022", of at most 0777.
Result<mode_t> parse_umask(const std::string& text);

// "2026-01-02T03:04:05.678901234Z"; whole seconds have no fraction.
std::string format_time(WallTime time);
Result<WallTime> parse_time(const std::string& text);

HttpResponse error_response(const Status& status);
// The Status that the answer of a daemon stands for; call it for anything but 2xx.
Status status_of(const HttpResponse& response);

}  // namespace leat
