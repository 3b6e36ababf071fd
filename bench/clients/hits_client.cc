// SPDX-License-Identifier: Apache-2.0
// The hit rate of the page store for a trace, and that of a simulation of its policy.
//
//   leat_bench_hits DIR KIND WORK SHARE OBJECTS      KIND: files or packed; SHARE: of the data set
//
// WORK: permuted, in_order, resharded (a fourth of the objects each epoch, drawn again), zipf0.8,
// zipf1.1, scan+zipf (a fifth of the accesses pass once over objects that never come again).
// Prints one JSON line: the store's hit rate and the reference's, over the last half of the trace.
// The reference is S3-FIFO (Yang et al., SOSP 2023) for files and FIFO with re-insertion for packed
// objects, each object by itself, with as many objects as the store's capacity has room for.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/page_store.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {
namespace {

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "leat_bench_hits: %s\n", why.c_str());
  std::exit(1);
}

using Trace = std::vector<uint32_t>;

Trace by_epochs(uint32_t objects, bool permuted, uint32_t drawn, int epochs) {
  std::mt19937 random(7);
  Trace order(objects), trace;
  std::iota(order.begin(), order.end(), 0u);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    if (permuted) std::ranges::shuffle(order, random);
    trace.insert(trace.end(), order.begin(), order.begin() + drawn);
  }
  return trace;
}

// `passing`: of the accesses, to objects that come once; their numbers begin at `objects`.
Trace skewed(uint32_t objects, double skew, double passing) {
  std::mt19937 random(7);
  std::vector<double> weights;
  for (uint32_t rank = 1; rank <= objects; ++rank) weights.push_back(std::pow(rank, -skew));
  std::discrete_distribution<uint32_t> zipf(weights.begin(), weights.end());
  std::bernoulli_distribution passes(passing);
  Trace trace;
  uint32_t next = objects;
  for (uint32_t i = 0; i < 12 * objects; ++i)
    trace.push_back(passes(random) ? next++ : zipf(random));
  return trace;
}

Trace make_trace(const std::string& work, uint32_t objects) {
  if (work == "permuted") return by_epochs(objects, true, objects, 6);
  if (work == "in_order") return by_epochs(objects, false, objects, 6);
  if (work == "resharded") return by_epochs(objects, true, objects / 4, 24);
  if (work == "zipf0.8") return skewed(objects, 0.8, 0);
  if (work == "zipf1.1") return skewed(objects, 1.1, 0);
  if (work == "scan+zipf") return skewed(objects, 1.0, 0.2);
  fail("no such work: " + work);
}

// One access: true for a hit; a miss inserts the object.
class S3FifoReference {
 public:
  explicit S3FifoReference(size_t room) : room_(room) {}
  bool access(uint32_t object) {
    if (auto found = uses_.find(object); found != uses_.end()) {
      found->second = std::min(found->second + 1, 3);
      return true;
    }
    while (uses_.size() >= room_) evict();
    const bool again = ghost_set_.erase(object) > 0;
    (again ? main_ : small_).push_back(object);
    uses_[object] = 0;
    return false;
  }

 private:
  void evict() {
    if (small_.size() >= room_ / 10 || main_.empty()) {
      const uint32_t object = small_.front();
      small_.pop_front();
      if (uses_[object] > 1) {
        uses_[object] = 0;
        main_.push_back(object);
        return;
      }
      uses_.erase(object);
      ghosts_.push_back(object);
      ghost_set_.insert(object);
      for (; ghosts_.size() > room_ * 9 / 10; ghosts_.pop_front())
        ghost_set_.erase(ghosts_.front());
      return;
    }
    const uint32_t object = main_.front();
    main_.pop_front();
    if (uses_[object] > 0) {
      --uses_[object];
      main_.push_back(object);
    } else {
      uses_.erase(object);
    }
  }

  const size_t room_;
  std::unordered_map<uint32_t, int> uses_;
  std::deque<uint32_t> small_, main_, ghosts_;
  std::unordered_set<uint32_t> ghost_set_;
};

class ReinsertionReference {
 public:
  explicit ReinsertionReference(size_t room) : room_(room) {}
  bool access(uint32_t object) {
    if (auto found = read_.find(object); found != read_.end()) return found->second = true;
    while (read_.size() >= room_) {
      const uint32_t first = queue_.front();
      queue_.pop_front();
      if (read_[first]) {
        read_[first] = false;
        queue_.push_back(first);
      } else {
        read_.erase(first);
      }
    }
    queue_.push_back(object);
    read_[object] = false;
    return false;
  }

 private:
  const size_t room_;
  std::unordered_map<uint32_t, bool> read_;
  std::deque<uint32_t> queue_;
};

template <class Access>
double hit_rate(const Trace& trace, Access access) {
  size_t hits = 0, counted = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const bool hit = access(trace[i]);
    if (i < trace.size() / 2) continue;
    ++counted;
    hits += hit;
  }
  return static_cast<double>(hits) / static_cast<double>(counted);
}

class Store {
 public:
  Store(const std::string& directory, uint64_t capacity, uint64_t object_bytes, bool packed)
      : object_bytes_(object_bytes), disk_(make_disk(executor_)) {
    PageStoreOptions options{.directory = directory,
                             .capacity_bytes = capacity,
                             .free_bytes_min = 1,
                             .packed_bytes_max = packed ? object_bytes + 1 : 1};
    auto opened =
        executor_.block_on(PageStore::open(Context::background(), options, executor_, disk_));
    if (!opened) fail(opened.error().to_string());
    store_ = *std::move(opened);
  }
  ~Store() { executor_.block_on(close(*store_)); }

  bool access(uint32_t number) {
    static const StoreId store = make_store_id("s3", "localhost", "", "bucket");
    auto ref = std::make_shared<const FileRef>(
        FileRef::make(store, std::to_string(number), Version::etag("1"), object_bytes_));
    return executor_.block_on(access(*store_, ref));
  }

 private:
  static Task<bool> access(PageStore& store, FileRefPtr ref) {
    Result<Bytes> bytes = co_await store.read(Context::background(), ref, {0, ref->size});
    if (bytes) co_return true;
    static const Bytes content{Buffer(1 << 20)};
    auto kept = co_await store.write(Context::background(), ref, 0, content.sub(0, ref->size));
    static_cast<void>(kept);
    co_return false;
  }
  static Task<bool> close(PageStore& store) {
    co_await store.close();
    co_return true;
  }

  const uint64_t object_bytes_;
  Executor executor_;
  const std::shared_ptr<Disk> disk_;
  std::unique_ptr<PageStore> store_;
};

void run(const std::string& directory, bool packed, const std::string& work, double share,
         uint32_t objects) {
  // One block, and a page of what describes it, so that capacity and objects compare.
  const uint64_t object_bytes = packed ? 16'000 : 65'536;
  const uint64_t cost = packed ? 16'384 + 96 : 65'536 + 2 * 4096;
  const auto room = static_cast<size_t>(share * objects);
  const Trace trace = make_trace(work, objects);
  double measured;
  {
    Store store(directory, room * cost + 5 * 4096, object_bytes, packed);
    measured = hit_rate(trace, [&](uint32_t number) { return store.access(number); });
  }
  double simulated;
  if (packed) {
    ReinsertionReference reference(room);
    simulated = hit_rate(trace, [&](uint32_t number) { return reference.access(number); });
  } else {
    S3FifoReference reference(room);
    simulated = hit_rate(trace, [&](uint32_t number) { return reference.access(number); });
  }
  std::printf("{\"hit_rate\": %.4f, \"reference\": %.4f}\n", measured, simulated);
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  if (count != 6) leat::fail("usage: DIR files|packed WORK SHARE OBJECTS");
  leat::run(words[1], std::string(words[2]) == "packed", words[3], std::strtod(words[4], nullptr),
            static_cast<uint32_t>(std::strtoul(words[5], nullptr, 10)));
}
