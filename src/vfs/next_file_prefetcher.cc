// SPDX-License-Identifier: Apache-2.0
// An open records its place (NameOrderDetector) and at most posts a job. The job finds the names
// in the catalog's memory. It passes uncached files to the fetcher and cached ones to the page
// store, and continues in the next directory. One job of a directory at a time.
#include "vfs/next_file_prefetcher.h"

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
#include "prefetch/name_order_detector.h"
#include "runtime/executor.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Directories followed at a time; each uses 3 KiB once it is active.
constexpr size_t kDirectories = 64;
// Opens in other directories until a directory loses its slot.
constexpr unsigned kOtherOpensMax = 8;
// Files up to this size are fetched whole; of larger ones only the beginning, where their own
// prefetch starts.
constexpr uint64_t kWholeBytesMax = 8 * kMiB;
constexpr uint64_t kBeginningBytes = 2 * kMiB;
// Bytes ahead in one directory; less if only the fetcher's memory stores them.
constexpr uint64_t kAheadBytesMax = 64 * kMiB;
// Opens not recorded after a job that found everything in memory; doubled each time.
constexpr uint32_t kBackoffMin = 64, kBackoffMax = 4096;
// Runs that wait for the job of their directory.
constexpr size_t kPendingMax = 8;
// Files that wait for room to be fetched; the newest are kept, since the others are probably open
// already.
constexpr size_t kRejectedMax = 256;
// Directories with first files fetched from the previous directory.
constexpr size_t kSuccessorsMax = 8;

constexpr const char* kNamesHelp = "Files selected for prefetch in name order, by outcome";
Counter predicted_total("leat_prefetch_files_total", kNamesHelp, R"(what="predicted")",
                        Stability::kExperimental);
Counter used_total("leat_prefetch_files_total", kNamesHelp, R"(what="used")",
                   Stability::kExperimental);
Counter wasted_total("leat_prefetch_files_total", kNamesHelp, R"(what="wasted")",
                     Stability::kExperimental);
Counter fetched_total("leat_prefetch_files_started_total",
                      "Files whose prefetch in name order started", R"(from="store")",
                      Stability::kExperimental);
Counter cold_bytes("leat_prefetch_files_disk_bytes_total",
                   "Bytes read from the cache's disk by prefetch in name order", "",
                   Stability::kExperimental);

using DirectoryNode = std::shared_ptr<const Node>;

ByteRange beginning_of(const FileRef& ref) {
  return {0, ref.size <= kWholeBytesMax ? ref.size : kBeginningBytes};
}

// Places that an open made due for prefetch.
struct PendingRun {
  DirectoryNode directory;
  std::string name;  // of the file that was opened
  uint64_t place = 0;
  PlaceRun run;
  uint32_t window = 0;
};

// State of one directory. Guarded by its mutex.
struct DirectoryState {
  AdaptiveMutex mutex;  // leaf, except for successors_mutex_
  NodeId directory = 0;
  unsigned other_opens_left = 0;
  std::optional<NameOrderDetector> order;
  uint64_t used_reported = 0, wasted_reported = 0;
  uint32_t backoff = 0, next_backoff = 0;
  bool job_runs = false;
  std::vector<PendingRun> pending;
  std::vector<FileRefPtr> rejected;  // no room to fetch them yet
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
       NextFilePrefetcher::PathOf path_of)
      : catalog_(catalog),
        fetcher_(fetcher),
        store_(store),
        executor_(executor),
        path_of_(std::move(path_of)) {}

  void on_open(const Node& node, uint64_t place);
  void on_stall(const Node& node);
  // When this returns, no job runs or will run.
  void close() {
    std::lock_guard lock(running_);
    closed_ = true;
    // A job or a disk may hold this longer than the nodes may live.
    for (DirectoryState& of : directories_) {
      std::lock_guard state_lock(of.mutex);
      of.pending.clear();
      of.rejected.clear();
    }
  }

 private:
  DirectoryState& directory_state(const Node& directory) {
    return directories_[shard_of_node(directory.id, directories_.size())];
  }
  bool claim_slot(DirectoryState& of, const Node& directory);
  static void count(DirectoryState& of);
  void run(DirectoryState& of);
  void choose(DirectoryState& of, const PendingRun& pending, std::vector<FileRefPtr>& into);
  void choose_in_next(const PendingRun& pending, uint32_t count, std::vector<FileRefPtr>& into);
  Successor successor(NodeId parent, const std::string& name);
  void add_successor(Successor next);
  void prefetch(DirectoryState& of, const std::vector<FileRefPtr>& chosen);
  void update_backoff(DirectoryState& of, uint64_t bytes, bool fetched);
  bool uses_page_store(const FileRef& ref) const {
    return ref.cache == CacheUse::kDisk && store_ != nullptr;
  }

  Catalog& catalog_;
  Fetcher& fetcher_;
  PageStore* const store_;
  Executor& executor_;
  const NextFilePrefetcher::PathOf path_of_;

  std::array<DirectoryState, kDirectories> directories_;
  std::mutex successors_mutex_;  // leaf
  std::deque<Successor> successors_;
  std::shared_mutex running_;  // before all others; shared by the jobs that run
  std::atomic<bool> closed_ = false;
};

void Core::count(DirectoryState& of) {
  used_total.add(of.order->used() - std::exchange(of.used_reported, of.order->used()));
  wasted_total.add(of.order->wasted() - std::exchange(of.wasted_reported, of.order->wasted()));
}

// Returns false if the directory in the slot is in use.
bool Core::claim_slot(DirectoryState& of, const Node& directory) {
  if (of.directory == directory.id) {
    of.other_opens_left = kOtherOpensMax;
    return true;
  }
  if (of.job_runs || (of.order && of.order->ordered() && of.other_opens_left > 0)) {
    of.other_opens_left -= of.other_opens_left > 0 ? 1 : 0;
    return false;
  }
  if (of.order) count(of);
  of.directory = directory.id;
  of.other_opens_left = kOtherOpensMax;
  of.order.emplace();
  of.used_reported = of.wasted_reported = 0;
  of.backoff = of.next_backoff = 0;
  of.rejected.clear();
  of.pending.clear();
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

void Core::on_open(const Node& node, uint64_t place) {
  if (place == kNoIndex || !node.parent || node.ref->cache == CacheUse::kBypass) return;
  DirectoryState& of = directory_state(*node.parent);
  std::unique_lock lock(of.mutex, std::try_to_lock);
  if (!lock || closed_ || !claim_slot(of, *node.parent)) return;
  if (of.backoff > 0) {
    --of.backoff;
    return;
  }
  const std::optional<PlaceRun> run = of.order->observe(place);
  if (run && of.pending.size() < kPendingMax) {
    of.pending.push_back({.directory = node.parent,
                          .name = node.name,
                          .place = place,
                          .run = *run,
                          .window = of.order->window()});
  }
  if (of.job_runs || (of.pending.empty() && of.rejected.empty())) return;
  of.job_runs = true;
  count(of);
  lock.unlock();
  executor_.post([self = shared_from_this(), &of] { self->run(of); });
}

void Core::on_stall(const Node& node) {
  if (!node.parent) return;
  DirectoryState& of = directory_state(*node.parent);
  std::unique_lock lock(of.mutex, std::try_to_lock);
  if (lock && of.directory == node.parent->id) of.backoff = of.next_backoff = 0;
}

void Core::run(DirectoryState& of) {
  std::shared_lock running(running_);
  if (closed_) return;
  std::vector<PendingRun> pending;
  std::vector<FileRefPtr> chosen;
  {
    std::lock_guard lock(of.mutex);
    pending.swap(of.pending);
    chosen.swap(of.rejected);
  }
  for (const PendingRun& one : pending) choose(of, one, chosen);
  prefetch(of, chosen);
}

// Appends the files of the run, from a fresh listing.
void Core::choose(DirectoryState& of, const PendingRun& pending, std::vector<FileRefPtr>& into) {
  const ListingPtr listing = catalog_.try_list(path_of_(*pending.directory));
  if (!listing) return;
  const size_t before = into.size();
  uint64_t bytes = 0, most = kAheadBytesMax, place = pending.place + 1;
  uint32_t left = pending.run.count;
  Listing::Cursor cursor = listing->after(pending.name);
  for (; left > 0 && cursor.next(); ++place) {
    if (place < pending.run.first || (place - pending.run.first) % pending.run.stride != 0)
      continue;
    --left;
    if (cursor.view().is_directory()) continue;
    into.push_back(cursor.entry().ref);
    bytes += beginning_of(*into.back()).size;
    if (!uses_page_store(*into.back()))
      most = std::min(most, fetcher_.uncached_prefetch_bytes_max());
  }
  const uint64_t files = into.size() - before;
  if (left > 0) choose_in_next(pending, left, into);
  predicted_total.add(into.size() - before);
  std::lock_guard lock(of.mutex);
  if (of.directory != pending.directory->id) return;
  if (left > 0) of.order->end_at(place);
  if (bytes == 0) return;
  const uint64_t fit = most / std::max<uint64_t>(bytes / files, 1);
  of.order->limit(static_cast<uint32_t>(std::min<uint64_t>(fit, UINT32_MAX)));
}

void Core::choose_in_next(const PendingRun& pending, uint32_t count,
                          std::vector<FileRefPtr>& into) {
  const DirectoryNode& parent = pending.directory->parent;
  if (!parent) return;
  const std::string path = path_of_(*parent);
  const ListingPtr siblings = catalog_.try_list(path);
  if (!siblings) return;
  Listing::Cursor cursor = siblings->after(pending.directory->name);
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
  add_successor({.parent = parent->id, .name = name, .window = pending.window, .count = at});
}

// Returns the known successor, or a new one.
Successor Core::successor(NodeId parent, const std::string& name) {
  std::lock_guard lock(successors_mutex_);
  for (const Successor& known : successors_) {
    if (known.parent == parent && known.name == name) return known;
  }
  return {};
}

void Core::add_successor(Successor next) {
  std::lock_guard lock(successors_mutex_);
  std::erase_if(successors_, [&next](const Successor& known) {
    return known.parent == next.parent && known.name == next.name;
  });
  if (successors_.size() == kSuccessorsMax) successors_.pop_front();
  successors_.push_back(std::move(next));
}

void Core::prefetch(DirectoryState& of, const std::vector<FileRefPtr>& chosen) {
  std::vector<FileRefPtr> cached, rejected;
  bool fetched = false;
  for (const FileRefPtr& ref : chosen) {
    if (ref == nullptr || ref->size == 0 || ref->cache == CacheUse::kBypass) continue;
    const ByteRange range = beginning_of(*ref);
    if (uses_page_store(*ref) && store_->missing(*ref, range).empty()) {
      cached.push_back(ref);
      continue;
    }
    if (!rejected.empty() || !fetcher_.prefetch(ref, range)) {
      rejected.push_back(ref);
      continue;
    }
    fetched = true;
    fetched_total.add();
  }
  const bool all_cached = !fetched && rejected.empty();
  if (rejected.size() > kRejectedMax)
    rejected.erase(rejected.begin(), rejected.end() - kRejectedMax);
  {
    std::lock_guard lock(of.mutex);
    of.job_runs = false;
    of.rejected = std::move(rejected);
  }
  if (!all_cached) update_backoff(of, 0, true);
  if (cached.empty()) return;
  store_->readahead(std::move(cached), [self = shared_from_this(), &of, all_cached](uint64_t cold) {
    self->update_backoff(of, cold, !all_cached);
  });
}

// If everything was in memory already, pauses the recording of opens.
void Core::update_backoff(DirectoryState& of, uint64_t bytes, bool fetched) {
  cold_bytes.add(bytes);
  std::lock_guard lock(of.mutex);
  if (fetched || bytes > 0) {
    of.backoff = of.next_backoff = 0;
    return;
  }
  of.next_backoff = std::clamp(of.next_backoff * 2, kBackoffMin, kBackoffMax);
  of.backoff = of.next_backoff;
}

class CatalogNextFilePrefetcher : public NextFilePrefetcher {
 public:
  explicit CatalogNextFilePrefetcher(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~CatalogNextFilePrefetcher() override { core_->close(); }

  void on_open(const Node& node, uint64_t place) override { core_->on_open(node, place); }
  void on_stall(const Node& node) override { core_->on_stall(node); }

 private:
  const std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<NextFilePrefetcher> NextFilePrefetcher::create(Executor* executor, Catalog& catalog,
                                                               Fetcher& fetcher, PageStore* store,
                                                               PathOf path_of) {
  if (executor == nullptr) return nullptr;
  return std::make_unique<CatalogNextFilePrefetcher>(
      std::make_shared<Core>(catalog, fetcher, store, *executor, std::move(path_of)));
}

}  // namespace leat
