// SPDX-License-Identifier: Apache-2.0
// An open records its place (prefetch/name_order) and at most posts a job. The job finds the names
// in the catalog's memory. It passes uncached files to the fetcher and cached ones to the page
// store, and continues in the next directory. One job of a directory at a time.
#include "vfs/next_files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/adaptive_mutex.h"
#include "prefetch/name_order.h"
#include "runtime/executor.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Directories followed at a time; each uses 3 KiB once it is active.
constexpr size_t kDirectories = 64;
// Opens in other directories until a directory loses its slot.
constexpr unsigned kPatience = 8;
// Files up to this size are fetched whole; of larger ones only the beginning, where their own
// prefetch starts.
constexpr uint64_t kWholeBytesMax = 8 * kMiB;
constexpr uint64_t kBeginningBytes = 2 * kMiB;
// Bytes ahead in one directory; less if only the fetcher's memory stores them.
constexpr uint64_t kAheadBytesMax = 64 * kMiB;
// Opens not recorded after a job that found everything in memory; doubled each time.
constexpr uint32_t kRestMin = 64, kRestMax = 4096;
// Runs that wait for the job of their directory.
constexpr size_t kDueMax = 8;
// Files that wait for room to be fetched; the newest are kept, since the others are probably open
// already.
constexpr size_t kRefusedMax = 256;
// Directories with first files fetched from the previous directory.
constexpr size_t kSuccessorsMax = 8;

constexpr const char* kNamesHelp = "Files that look-ahead in name order chose, and what came of it";
Counter predicted_total("leat_vfs_next_files_total", kNamesHelp, R"(what="predicted")",
                        Stability::kExperimental);
Counter used_total("leat_vfs_next_files_total", kNamesHelp, R"(what="used")",
                   Stability::kExperimental);
Counter wasted_total("leat_vfs_next_files_total", kNamesHelp, R"(what="wasted")",
                     Stability::kExperimental);
Counter fetched_total("leat_vfs_next_files_started_total",
                      "Files that look-ahead in name order began to bring", R"(from="store")",
                      Stability::kExperimental);
Counter cold_bytes("leat_vfs_next_files_disk_bytes_total",
                   "Bytes that look-ahead in name order brought from the cache's disk", "",
                   Stability::kExperimental);

using DirectoryNode = std::shared_ptr<const Node>;

ByteRange beginning_of(const FileRef& ref) {
  return {0, ref.size <= kWholeBytesMax ? ref.size : kBeginningBytes};
}

// Work that an open made due.
struct Due {
  DirectoryNode directory;
  std::string name;  // of the file that was opened
  uint64_t place = 0;
  PlaceRun run;
  uint32_t window = 0;
};

// State of one directory. Guarded by its mutex.
struct Followed {
  AdaptiveMutex mutex;  // leaf, except for successors_mutex_
  NodeId directory = 0;
  unsigned patience = 0;
  std::optional<NameOrder> order;
  uint64_t used_told = 0, wasted_told = 0;
  uint32_t rest = 0, next_rest = 0;
  bool job_runs = false;
  std::vector<Due> due;
  std::vector<FileRefPtr> refused;  // no room to fetch them yet
};

// Readers are expected in directory `name` of `parent`.
struct Successor {
  NodeId parent = 0;
  std::string name;
  uint32_t window = 0;
  uint32_t count = 0;  // of its first places, in flight
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Catalog& catalog, Fetcher& fetcher, PageStore* store, Executor& executor,
       NextFiles::PathOf path_of)
      : catalog_(catalog),
        fetcher_(fetcher),
        store_(store),
        executor_(executor),
        path_of_(std::move(path_of)) {}

  void opened(const Node& node, uint64_t place);
  void waited(const Node& node);
  // When this returns, no job runs or will run.
  void close() {
    std::lock_guard lock(running_);
    closed_ = true;
    // A job or a disk may hold this longer than the nodes may live.
    for (Followed& of : directories_) {
      std::lock_guard followed(of.mutex);
      of.due.clear();
      of.refused.clear();
    }
  }

 private:
  Followed& followed(const Node& directory) {
    return directories_[shard_of_node(directory.id, directories_.size())];
  }
  bool take_place(Followed& of, const Node& directory);
  static void count(Followed& of);
  void run(Followed& of);
  void choose(Followed& of, const Due& due, std::vector<FileRefPtr>& into);
  void choose_in_next(const Due& due, uint32_t count, std::vector<FileRefPtr>& into);
  Successor successor(NodeId parent, const std::string& name);
  void remember(Successor next);
  void bring(Followed& of, const std::vector<FileRefPtr>& chosen);
  void found_cold(Followed& of, uint64_t bytes, bool fetched);
  bool is_kept(const FileRef& ref) const {
    return ref.cache == CacheUse::kDisk && store_ != nullptr;
  }

  Catalog& catalog_;
  Fetcher& fetcher_;
  PageStore* const store_;
  Executor& executor_;
  const NextFiles::PathOf path_of_;

  std::array<Followed, kDirectories> directories_;
  std::mutex successors_mutex_;  // leaf
  std::deque<Successor> successors_;
  std::shared_mutex running_;  // before all others; shared by the jobs that run
  std::atomic<bool> closed_ = false;
};

void Core::count(Followed& of) {
  used_total.add(of.order->used() - std::exchange(of.used_told, of.order->used()));
  wasted_total.add(of.order->wasted() - std::exchange(of.wasted_told, of.order->wasted()));
}

// Returns false if the directory in the slot is in use.
bool Core::take_place(Followed& of, const Node& directory) {
  if (of.directory == directory.id) {
    of.patience = kPatience;
    return true;
  }
  if (of.job_runs || (of.order && of.order->ordered() && of.patience > 0)) {
    of.patience -= of.patience > 0 ? 1 : 0;
    return false;
  }
  if (of.order) count(of);
  of.directory = directory.id;
  of.patience = kPatience;
  of.order.emplace();
  of.used_told = of.wasted_told = 0;
  of.rest = of.next_rest = 0;
  of.refused.clear();
  of.due.clear();
  std::lock_guard lock(successors_mutex_);
  auto at = std::ranges::find_if(successors_, [&directory](const Successor& next) {
    return directory.parent && next.parent == directory.parent->id && next.name == directory.name;
  });
  if (at != successors_.end()) {
    of.order->follow(at->window, at->count);
    successors_.erase(at);
  }
  return true;
}

void Core::opened(const Node& node, uint64_t place) {
  if (place == kNoPlace || !node.parent || node.ref->cache == CacheUse::kNone) return;
  Followed& of = followed(*node.parent);
  std::unique_lock lock(of.mutex, std::try_to_lock);
  if (!lock || closed_ || !take_place(of, *node.parent)) return;
  if (of.rest > 0) {
    --of.rest;
    return;
  }
  const std::optional<PlaceRun> run = of.order->observe(place);
  if (run && of.due.size() < kDueMax) {
    of.due.push_back({.directory = node.parent,
                      .name = node.name,
                      .place = place,
                      .run = *run,
                      .window = of.order->window()});
  }
  if (of.job_runs || (of.due.empty() && of.refused.empty())) return;
  of.job_runs = true;
  count(of);
  lock.unlock();
  executor_.post([self = shared_from_this(), &of] { self->run(of); });
}

void Core::waited(const Node& node) {
  if (!node.parent) return;
  Followed& of = followed(*node.parent);
  std::unique_lock lock(of.mutex, std::try_to_lock);
  if (lock && of.directory == node.parent->id) of.rest = of.next_rest = 0;
}

void Core::run(Followed& of) {
  std::shared_lock running(running_);
  if (closed_) return;
  std::vector<Due> due;
  std::vector<FileRefPtr> chosen;
  {
    std::lock_guard lock(of.mutex);
    due.swap(of.due);
    chosen.swap(of.refused);
  }
  for (const Due& one : due) choose(of, one, chosen);
  bring(of, chosen);
}

// Appends the files of the run, from a fresh listing.
void Core::choose(Followed& of, const Due& due, std::vector<FileRefPtr>& into) {
  const ListingPtr listing = catalog_.try_list(path_of_(*due.directory));
  if (!listing) return;
  const size_t before = into.size();
  uint64_t bytes = 0, most = kAheadBytesMax, place = due.place + 1;
  uint32_t left = due.run.count;
  Listing::Cursor cursor = listing->after(due.name);
  for (; left > 0 && cursor.next(); ++place) {
    if (place < due.run.first || (place - due.run.first) % due.run.stride != 0) continue;
    --left;
    if (cursor.view().is_directory()) continue;
    into.push_back(cursor.entry().ref);
    bytes += beginning_of(*into.back()).size;
    if (!is_kept(*into.back())) most = std::min(most, fetcher_.unkept_ahead_bytes_max());
  }
  const uint64_t files = into.size() - before;
  if (left > 0) choose_in_next(due, left, into);
  predicted_total.add(into.size() - before);
  std::lock_guard lock(of.mutex);
  if (of.directory != due.directory->id) return;
  if (left > 0) of.order->end_at(place);
  if (bytes == 0) return;
  const uint64_t fit = most / std::max<uint64_t>(bytes / files, 1);
  of.order->limit(static_cast<uint32_t>(std::min<uint64_t>(fit, UINT32_MAX)));
}

void Core::choose_in_next(const Due& due, uint32_t count, std::vector<FileRefPtr>& into) {
  const DirectoryNode& parent = due.directory->parent;
  if (!parent) return;
  const std::string path = path_of_(*parent);
  const ListingPtr siblings = catalog_.try_list(path);
  if (!siblings) return;
  Listing::Cursor cursor = siblings->after(due.directory->name);
  if (!cursor.next() || !cursor.view().is_directory()) return;
  const std::string name(cursor.view().name);
  const ListingPtr names = catalog_.try_list(join_path(path, name));
  if (!names) return;
  const Successor before = successor(parent->id, name);
  uint32_t at = 0;
  Listing::Cursor files = names->from(0);
  for (const uint32_t end = before.count + count; at < end && files.next(); ++at) {
    if (at >= before.count && !files.view().is_directory()) into.push_back(files.entry().ref);
  }
  remember({.parent = parent->id, .name = name, .window = due.window, .count = at});
}

// Returns the known successor, or a new one.
Successor Core::successor(NodeId parent, const std::string& name) {
  std::lock_guard lock(successors_mutex_);
  for (const Successor& known : successors_) {
    if (known.parent == parent && known.name == name) return known;
  }
  return {};
}

void Core::remember(Successor next) {
  std::lock_guard lock(successors_mutex_);
  std::erase_if(successors_, [&next](const Successor& known) {
    return known.parent == next.parent && known.name == next.name;
  });
  if (successors_.size() == kSuccessorsMax) successors_.pop_front();
  successors_.push_back(std::move(next));
}

void Core::bring(Followed& of, const std::vector<FileRefPtr>& chosen) {
  std::vector<FileRefPtr> cached, refused;
  bool fetched = false;
  for (const FileRefPtr& ref : chosen) {
    if (ref == nullptr || ref->size == 0 || ref->cache == CacheUse::kNone) continue;
    const ByteRange range = beginning_of(*ref);
    if (is_kept(*ref) && store_->missing(*ref, range).empty()) {
      cached.push_back(ref);
      continue;
    }
    if (!refused.empty() || !fetcher_.prefetch(ref, range)) {
      refused.push_back(ref);
      continue;
    }
    fetched = true;
    fetched_total.add();
  }
  const bool all_cached = !fetched && refused.empty();
  if (refused.size() > kRefusedMax) refused.erase(refused.begin(), refused.end() - kRefusedMax);
  {
    std::lock_guard lock(of.mutex);
    of.job_runs = false;
    of.refused = std::move(refused);
  }
  if (!all_cached) found_cold(of, 0, true);
  if (cached.empty()) return;
  store_->will_read(std::move(cached), [self = shared_from_this(), &of, all_cached](uint64_t cold) {
    self->found_cold(of, cold, !all_cached);
  });
}

// If everything was in memory already, pauses the recording of opens.
void Core::found_cold(Followed& of, uint64_t bytes, bool fetched) {
  cold_bytes.add(bytes);
  std::lock_guard lock(of.mutex);
  if (fetched || bytes > 0) {
    of.rest = of.next_rest = 0;
    return;
  }
  of.next_rest = std::clamp(of.next_rest * 2, kRestMin, kRestMax);
  of.rest = of.next_rest;
}

class CatalogNextFiles : public NextFiles {
 public:
  explicit CatalogNextFiles(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~CatalogNextFiles() override { core_->close(); }

  void opened(const Node& node, uint64_t place) override { core_->opened(node, place); }
  void waited(const Node& node) override { core_->waited(node); }

 private:
  const std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<NextFiles> NextFiles::of(Executor* executor, Catalog& catalog, Fetcher& fetcher,
                                         PageStore* store, PathOf path_of) {
  if (executor == nullptr) return nullptr;
  return std::make_unique<CatalogNextFiles>(
      std::make_shared<Core>(catalog, fetcher, store, *executor, std::move(path_of)));
}

}  // namespace leat
