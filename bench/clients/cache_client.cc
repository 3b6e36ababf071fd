// SPDX-License-Identifier: Apache-2.0
// The benchmarks' page store: module `cache` alone.
//
//   leat_bench_cache fill DIR OBJECTS OBJECT_BYTES IN_FLIGHT    writes objects until they are
//   durable leat_bench_cache open DIR OBJECTS OBJECT_BYTES              opens the store, reads some
//   objects leat_bench_cache raw DIR OBJECTS OBJECT_BYTES               the same bytes as one file,
//   fdatasynced
// Each prints one JSON line. Objects are alike but for their keys, which are 40 bytes long.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer_pool.h"
#include "cache/page_store.h"
#include "plan.h"
#include "runtime/disk.h"
#include "runtime/executor.h"

namespace leat {
namespace {

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "leat_bench_cache: %s\n", why.c_str());
  std::exit(1);
}

void must(const Result<>& done) {
  if (!done) fail(done.error().to_string());
}

struct Work {
  std::string directory;
  uint64_t objects = 0, object_bytes = 0;

  FileRefPtr object(uint64_t index) const {
    static const StoreId store = make_store_id("s3", "localhost", "", "bucket");
    char key[64];
    std::snprintf(key, sizeof key, "train/part-%05lu/sample-%016lu", index / 1000, index);
    return std::make_shared<const FileRef>(
        FileRef::make(store, key, Version::etag("d41d8cd98f00b204e9800998ecf8427e"), object_bytes));
  }
  uint64_t bytes() const { return objects * object_bytes; }
  PageStoreOptions options() const {
    return {.directory = directory,
            .capacity_bytes = 2 * bytes() + (uint64_t{4} << 30),
            .free_bytes_min = 1};
  }
};

// Without what is kept for the next buffers, which is bounded for itself.
uint64_t heap_bytes() {
  struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd - pooled_buffer_bytes();
}

class Store {
 public:
  explicit Store(const Work& work) : disk_(make_disk(executor)) {
    Result<std::unique_ptr<PageStore>> opened =
        executor.block_on(PageStore::open(Context::background(), work.options(), executor, disk_));
    if (!opened) fail(opened.error().to_string());
    store_ = *std::move(opened);
  }
  ~Store() { executor.block_on(close(*store_)); }
  PageStore* operator->() { return store_.get(); }
  PageStore& operator*() { return *store_; }

  Executor executor;

 private:
  static Task<bool> close(PageStore& store) {
    co_await store.close();
    co_return true;
  }
  const std::shared_ptr<Disk> disk_;
  std::unique_ptr<PageStore> store_;
};

Task<> write_some(const Work& work, PageStore& store, std::atomic<uint64_t>& next,
                  std::atomic<uint64_t>& working) {
  Buffer buffer(work.object_bytes);
  std::memset(buffer.data(), 0x5a, work.object_bytes);
  const Bytes content(std::move(buffer));
  for (uint64_t index = next++; index < work.objects; index = next++) {
    must(co_await store.write(Context::background(), work.object(index), 0, content));
  }
  if (--working == 0) working.notify_all();
}

void run_fill(const Work& work, uint64_t in_flight) {
  Store store(work);
  const Watch watch;
  std::atomic<uint64_t> next = 0, working = in_flight;
  for (uint64_t i = 0; i < in_flight; ++i) {
    store.executor.spawn(write_some(work, *store, next, working));
  }
  for (uint64_t now = working; now > 0; now = working) working.wait(now);
  must(store.executor.block_on(store->flush(Context::background())));
  watch.print(work.objects, work.object_bytes);
}

void run_open(const Work& work) {
  constexpr uint64_t kReads = 1000;
  const uint64_t heap_before = heap_bytes();
  const Watch watch;
  Store store(work);
  const double opened_s = watch.seconds();
  double first_s = 0;
  for (uint64_t i = 0; i < kReads; ++i) {
    FileRefPtr ref = work.object((i * 7919) % work.objects);
    Result<Bytes> got =
        store.executor.block_on(store->read(Context::background(), ref, {0, work.object_bytes}));
    if (!got) fail(got.error().to_string());
    if (i == 0) first_s = watch.seconds();
  }
  const PageStoreStats stats = store->stats();
  const uint64_t objects = stats.packed_objects + stats.files;
  std::printf(
      "{\"objects\": %lu, \"open_s\": %.3f, \"first_hit_s\": %.3f, \"heap_bytes\": %lu, "
      "\"heap_per_object\": %.1f}\n",
      objects, opened_s, first_s, heap_bytes() - heap_before,
      double(heap_bytes() - heap_before) / double(objects));
}

void run_raw(const Work& work) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  const std::string path = work.directory + "/raw";
  const std::vector<char> piece(kPieceBytes, 0x5a);
  const Watch watch;
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  for (uint64_t left = work.bytes(); left > 0;) {
    ssize_t written = ::write(file.fd(), piece.data(), std::min(left, kPieceBytes));
    if (written <= 0) fail("cannot write " + path);
    left -= static_cast<uint64_t>(written);
  }
  if (::fdatasync(file.fd()) != 0) fail("cannot sync " + path);
  watch.print(work.objects, work.object_bytes);
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  if (count < 5) leat::fail("usage: fill|open|raw DIR OBJECTS OBJECT_BYTES [IN_FLIGHT]");
  leat::Work work{words[2], std::strtoull(words[3], nullptr, 10),
                  std::strtoull(words[4], nullptr, 10)};
  const std::string what = words[1];
  if (what == "fill") {
    leat::run_fill(work, count > 5 ? std::strtoull(words[5], nullptr, 10) : 64);
  } else if (what == "open") {
    leat::run_open(work);
  } else if (what == "raw") {
    leat::run_raw(work);
  } else {
    leat::fail("no such work: " + what);
  }
}
