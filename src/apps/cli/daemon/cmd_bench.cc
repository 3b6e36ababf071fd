// SPDX-License-Identifier: Apache-2.0
// `leat bench io`: reads a file or a tree through the kernel, as any program would.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "apps/cli/command/command_table.h"
#include "apps/cli/help/command_description.h"
#include "base/crc32c.h"
#include "base/pluralize.h"
#include "config/paths.h"
#include "runtime/disk.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

struct Piece {
  size_t file;
  uint64_t offset;
  uint64_t size;
};

struct Work {
  std::vector<std::string> files;
  // A thread's unit of work: a whole file in order, or one block at a random offset.
  std::vector<Piece> pieces;
};

struct Outcome {
  uint64_t bytes = 0;
  uint64_t reads = 0;
  uint64_t files = 0;
  uint64_t checksum = 0;  // sum of the pieces' CRC-32C: the order does not matter
  double seconds = 0;
  uint64_t seed = 0;
};

CommandResult<Work> find_work(const std::string& path) {
  Work work;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    for (fs::recursive_directory_iterator item(path, failed), end; !failed && item != end;
         item.increment(failed)) {
      if (item->is_regular_file(failed)) work.files.push_back(item->path());
    }
  } else if (!failed) {
    work.files.push_back(path);
  }
  if (failed) {
    return std::unexpected(Failure(status_from_errno(failed.value(), "cannot list " + path)));
  }
  std::ranges::sort(work.files);
  for (size_t i = 0; i < work.files.size(); ++i) {
    struct stat info{};
    if (stat(work.files[i].c_str(), &info) != 0) {
      return std::unexpected(Failure(status_from_errno(errno, "cannot stat " + work.files[i])));
    }
    work.pieces.push_back({i, 0, static_cast<uint64_t>(info.st_size)});
  }
  return work;
}

// One shared list of pieces; each thread takes the next.
class Reader {
 public:
  Reader(const Work& work, uint64_t block) : work_(work), block_(block) {}

  CommandResult<Outcome> run(unsigned threads) {
    auto from = std::chrono::steady_clock::now();
    std::vector<std::thread> pool;
    for (unsigned i = 0; i < threads; ++i) pool.emplace_back([this] { take_pieces(); });
    for (std::thread& thread : pool) thread.join();
    if (failed_) return std::unexpected(Failure(*failed_));
    total_.files = work_.files.size();
    total_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    return total_;
  }

 private:
  void take_pieces() {
    Buffer buffer(block_);
    Outcome mine;
    Result<> done;
    for (size_t i; done && (i = next_.fetch_add(1)) < work_.pieces.size();) {
      done = read_piece(work_.pieces[i], buffer, mine);
    }
    std::lock_guard lock(mutex_);
    total_.bytes += mine.bytes;
    total_.reads += mine.reads;
    total_.checksum += mine.checksum;
    if (!done) failed_ = done.error();
  }

  Result<> read_piece(const Piece& piece, Buffer& buffer, Outcome& mine) const {
    const std::string& path = work_.files[piece.file];
    File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return error(status_from_errno(errno, "cannot open " + path));
    uint32_t checksum = 0;
    uint64_t left = piece.size, offset = piece.offset;
    while (left > 0) {
      ssize_t n = pread(file.fd(), buffer.data(), std::min<uint64_t>(left, buffer.size()),
                        static_cast<off_t>(offset));
      if (n < 0) return error(status_from_errno(errno, "cannot read " + path));
      if (n == 0) break;
      auto got = static_cast<size_t>(n);
      checksum = crc32c(buffer.span().first(got), checksum);
      left -= got;
      offset += got;
      mine.bytes += got;
      ++mine.reads;
    }
    mine.checksum += checksum;
    return {};
  }

  const Work& work_;
  const uint64_t block_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  Outcome total_;
  std::optional<Status> failed_;
};

class BenchCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    one_of(app.add_option("KIND", kind_, "What to measure"), {"io"})->required();
    app.add_option("PATH", path_, "Local file or directory, mounted or not (no URL)")
        ->type_name("PATH")
        ->required();
    app.add_option("-t,--threads", threads_, "Threads (1)")
        ->type_name("NUMBER")
        ->check(CLI::Range(1, 1024).description(""));
    app.add_option("-b,--block", block_, "Bytes per read (1MiB)")->type_name("SIZE");
    app.add_flag("--random", random_, "Read blocks at random offsets instead of files in order");
    app.add_option("--reads", reads_, "With --random: number of reads (10000)")
        ->type_name("NUMBER");
    app.add_option("--seed", seed_, "With --random: seed of the offsets (random)")
        ->type_name("NUMBER");
  }

  CommandResult<> run() override {
    if (is_store_url(path_)) {
      return failure(StatusCode::kInvalidArgument,
                     "bench reads as programs do, by local paths; mount the store and name a path "
                     "in its folder");
    }
    LEAT_TRY(uint64_t block, parse_bytes(block_));
    if (block == 0 || block > kGiB) {
      return failure(StatusCode::kInvalidArgument, "--block must be from 1 byte to 1GiB");
    }
    LEAT_TRY(Work work, find_work(path_));
    if (random_) scatter(work, block);
    LEAT_TRY(Outcome outcome, Reader(work, block).run(threads_));
    outcome.seed = seed_;
    show(outcome, block);
    return {};
  }

 private:
  // Chooses offsets weighted by file size, aligned to the block.
  void scatter(Work& work, uint64_t block) {
    if (seed_ == 0) seed_ = std::random_device{}();
    std::mt19937_64 random(seed_);
    std::vector<uint64_t> ends;
    uint64_t total = 0;
    for (const Piece& file : work.pieces) {
      total += (file.size + block - 1) / block;
      ends.push_back(total);
    }
    std::vector<Piece> places;
    for (uint64_t i = 0; total > 0 && i < reads_; ++i) {
      uint64_t place = random() % total;
      auto index = static_cast<size_t>(std::ranges::upper_bound(ends, place) - ends.begin());
      uint64_t first = index == 0 ? 0 : ends[index - 1];
      uint64_t offset = (place - first) * block;
      places.push_back({index, offset, std::min(block, work.pieces[index].size - offset)});
    }
    work.pieces = std::move(places);
  }

  void show(const Outcome& outcome, uint64_t block) const {
    double seconds = std::max(outcome.seconds, 1e-9);
    double mib = static_cast<double>(outcome.bytes) / kMiB / seconds;
    double ops = static_cast<double>(outcome.reads) / seconds;
    std::string checksum = fmt::format("{:016x}", outcome.checksum);
    if (json) {
      Json result = {{"path", path_},          {"pattern", random_ ? "random" : "sequential"},
                     {"threads", threads_},    {"block_bytes", block},
                     {"files", outcome.files}, {"bytes", outcome.bytes},
                     {"reads", outcome.reads}, {"seconds", outcome.seconds},
                     {"mib_per_second", mib},  {"reads_per_second", ops},
                     {"checksum", checksum}};
      if (random_) result["seed"] = outcome.seed;
      print_json(result);
      return;
    }
    print(fmt::format("{}, {} in {:.2f}s: {:.1f} MiB/s, {:.0f} reads/s, checksum {}{}",
                      pluralize(outcome.files, "file"), format_bytes(outcome.bytes),
                      outcome.seconds, mib, ops, checksum,
                      random_ ? fmt::format(", seed {}", outcome.seed) : ""));
  }

  std::string kind_, path_, block_ = "1MiB";
  unsigned threads_ = 1;
  bool random_ = false;
  uint64_t reads_ = 10'000, seed_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() {
  return std::make_unique<BenchCommand>();
}

}  // namespace leat
