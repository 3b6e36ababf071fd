// SPDX-License-Identifier: Apache-2.0
// The benchmarks' reads of a local file through module `source`, and plain pread(2) to compare
// with.
//
//   leat_bench_file WAY FILE ORDER RANGE_BYTES IN_FLIGHT READS
// WAY: source (a FileSource), network (the same, as if the file lay on NFS: by the pool, into
// memory of its own), file (a SourceFile, opened once), pread (as many threads as are in flight).
// ORDER: sequential or random (the same each time). Prints a line as Watch does.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "plan.h"
#include "runtime/executor.h"
#include "source/file/file_source.h"
#include "source/file/local_file.h"

namespace leat {
namespace {

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "leat_bench_file: %s\n", why.c_str());
  std::exit(1);
}

struct Work {
  std::string way, file;
  bool random = false;
  uint64_t range_bytes = 0, in_flight = 0, reads = 0, ranges = 0;
  std::atomic<uint64_t> next = 0, working = 0;

  uint64_t offset(uint64_t index) const {
    if (random) index = (index + 1) * 0x9e3779b97f4a7c15ull >> 20;
    return index % ranges * range_bytes;
  }
};

Task<> read_source(Work& work, Source& source) {
  std::vector<std::byte> into(work.range_bytes);
  for (uint64_t index = work.next++; index < work.reads; index = work.next++) {
    ReadRequest request{.key = work.file.substr(1),
                        .range = {work.offset(index), work.range_bytes},
                        .if_version = {}};
    Result<> done = co_await source.read(Context::background(), std::move(request), into);
    if (!done) fail(done.error().to_string());
  }
  if (--work.working == 0) work.working.notify_all();
}

Task<> read_file(Work& work, std::shared_ptr<LocalFile> file) {
  std::vector<std::byte> into(work.range_bytes);
  for (uint64_t index = work.next++; index < work.reads; index = work.next++) {
    Result<> done = co_await file->read(Context::background(), work.offset(index), into);
    if (!done) fail(done.error().to_string());
  }
  if (--work.working == 0) work.working.notify_all();
}

void read_plainly(Work& work) {
  const File file(::open(work.file.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::jthread> threads;
  for (uint64_t i = 0; i < work.in_flight; ++i) {
    threads.emplace_back([&] {
      std::vector<std::byte> into(work.range_bytes);
      for (uint64_t index = work.next++; index < work.reads; index = work.next++) {
        const auto at = static_cast<off_t>(work.offset(index));
        ssize_t got = ::pread(file.fd(), into.data(), into.size(), at);
        if (got != static_cast<ssize_t>(into.size())) fail("a short read");
      }
    });
  }
}

void run(Work& work) {
  if (work.way == "pread") return read_plainly(work);
  Executor executor({.threads = 1});
  FileSource source({}, 1000,
                    work.way == "network" ? FileAccess::kAsNetwork : FileAccess::kByFileSystem);
  std::shared_ptr<LocalFile> file;
  if (work.way == "file") {
    file = std::make_shared<LocalFile>(CheckedFile::open(work.file.substr(1), {}).value());
  }
  work.working = work.in_flight;
  for (uint64_t i = 0; i < work.in_flight; ++i) {
    executor.spawn(file ? read_file(work, file) : read_source(work, source));
  }
  for (uint64_t now = work.working; now > 0; now = work.working) work.working.wait(now);
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  if (count != 7) leat::fail("usage: WAY FILE sequential|random RANGE_BYTES IN_FLIGHT READS");
  leat::Work work;
  work.way = words[1];
  work.file = words[2];
  work.random = std::string(words[3]) == "random";
  work.range_bytes = std::strtoull(words[4], nullptr, 10);
  work.in_flight = std::strtoull(words[5], nullptr, 10);
  work.reads = std::strtoull(words[6], nullptr, 10);
  struct stat info{};
  if (::stat(words[2], &info) != 0) leat::fail("no such file");
  work.ranges = static_cast<uint64_t>(info.st_size) / work.range_bytes;
  const Watch watch;
  leat::run(work);
  watch.print(work.reads, work.range_bytes);
}
