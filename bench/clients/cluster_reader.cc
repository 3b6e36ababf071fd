// SPDX-License-Identifier: Apache-2.0
// A job's view of a cluster's mount: reads whole files, compares every byte, and records duration
// and outcome of each read. Content: verifiable_content.h.
//
//   leat_bench_cluster_reader make FOLDER LIST        files, versions as listed
//   leat_bench_cluster_reader once FOLDER LIST THREADS
//   leat_bench_cluster_reader load FOLDER LIST THREADS SEED LIST_EVERY
//   leat_bench_cluster_reader cycle FOLDER LIST THREADS
//   leat_bench_cluster_reader pages FOLDER NAME BYTES COUNT
//   leat_bench_cluster_reader parts FOLDER LIST THREADS SEED RATE
// LIST has a line "NAME BYTES VERSION" for each file, where older versions are wrong. `once` reads
// each in that order, `cycle` again and again; `load` at random, and a directory in place of every
// LIST_EVERYth (0: none). `parts` reads 4 KiB to 1 MiB at random, RATE times a second: a read that
// begins late, since those before it wait, has been waited for from when it was due (0: as many as
// there can be). These three run until their input ends; a line there makes them print the reads
// since the line before. `pages` reads COUNT pages of 4 KiB at random, one after the other. Output:
// a line of JSON. Reads go past the kernel's page cache as far as posix_fadvise goes; a read is the
// opening of a file and all of its bytes, where it is not of a part.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "verifiable_content.h"

namespace {

using Now = std::chrono::steady_clock;
constexpr size_t kStepBytes = 1 << 20;
constexpr size_t kPageBytes = 4096, kBlockBytes = 64 << 10;
constexpr size_t kMessagesMax = 5;

struct Entry {
  std::string name;
  uint64_t bytes = 0, version = 0;
};

double seconds_since(Now::time_point begin) {
  return std::chrono::duration<double>(Now::now() - begin).count();
}

std::vector<Entry> read_list(const char* path) {
  std::ifstream file(path);
  std::vector<Entry> entries;
  for (Entry one; file >> one.name >> one.bytes >> one.version;) entries.push_back(one);
  if (entries.empty()) {
    std::fprintf(stderr, "no files are listed in %s\n", path);
    std::exit(1);
  }
  return entries;
}

// How one read ended; an empty `wrong` and `failed`, and not `stale`: well.
struct Outcome {
  uint64_t bytes = 0;
  bool stale = false;  // the opened version no longer exists
  std::string failed, wrong;
};

// The reads since the last output.
class Tally {
 public:
  explicit Tally(size_t threads) : began_(threads) {}

  void begin(size_t thread, Now::time_point when = Now::now()) {
    began_[thread] = when.time_since_epoch().count();
  }
  void end(size_t thread, const Outcome& outcome) {
    const double seconds = pending_s(thread);
    began_[thread] = 0;
    std::lock_guard lock(mutex_);
    seconds_.push_back(static_cast<float>(seconds));
    bytes_ += outcome.bytes;
    by_second_[static_cast<size_t>(seconds_since(since_))] += outcome.bytes;
    stale_ += outcome.stale;
    if (!outcome.failed.empty()) note(failures_, outcome.failed);
    if (!outcome.wrong.empty()) note(wrong_, outcome.wrong);
  }
  void print() {
    std::lock_guard lock(mutex_);
    std::ranges::sort(seconds_);
    double longest = seconds_.empty() ? 0 : seconds_.back();
    // One that has not ended has lasted so long already.
    for (size_t thread = 0; thread < began_.size(); ++thread) {
      longest = std::max(longest, pending_s(thread));
    }
    std::printf(
        "{\"reads\": %zu, \"bytes\": %lu, \"seconds\": %.4f, \"stale\": %lu, "
        "\"failures\": %lu, \"wrong\": %lu, \"longest_s\": %.4f, \"p50_s\": %.6f, \"p99_s\": %.6f, "
        "\"bytes_by_second\": [",
        seconds_.size(), bytes_, seconds_since(since_), stale_, failures_, wrong_, longest,
        share(0.5), share(0.99));
    const size_t last = by_second_.empty() ? 0 : by_second_.rbegin()->first + 1;
    for (size_t second = 0; second < last; ++second) {
      std::printf("%s%lu", second ? ", " : "", by_second_[second]);
    }
    std::printf("], \"messages\": [");
    for (size_t i = 0; i < messages_.size(); ++i) {
      std::printf("%s\"%s\"", i ? ", " : "", messages_[i].c_str());
    }
    std::printf("]}\n");
    std::fflush(stdout);
    seconds_.clear();
    messages_.clear();
    by_second_.clear();
    bytes_ = stale_ = failures_ = wrong_ = 0;
    since_ = Now::now();
  }

 private:
  double pending_s(size_t thread) const {
    const int64_t began = began_[thread];
    if (began == 0) return 0;
    return std::chrono::duration<double>(
               Now::duration(Now::now().time_since_epoch().count() - began))
        .count();
  }
  double share(double of_all) const {
    if (seconds_.empty()) return 0;
    return seconds_[static_cast<size_t>(of_all * static_cast<double>(seconds_.size() - 1))];
  }
  void note(uint64_t& counter, std::string message) {
    ++counter;
    std::ranges::replace(message, '"', '\'');
    std::ranges::replace(message, '\\', '/');
    if (messages_.size() < kMessagesMax) messages_.push_back(std::move(message));
  }

  std::vector<std::atomic<int64_t>> began_;  // of a read in flight; 0: none
  std::mutex mutex_;
  Now::time_point since_ = Now::now();
  std::vector<float> seconds_;
  std::map<size_t, uint64_t> by_second_;
  std::vector<std::string> messages_;
  uint64_t bytes_ = 0, stale_ = 0, failures_ = 0, wrong_ = 0;
};

std::string why(const Entry& entry) {
  return entry.name + ": " + std::strerror(errno);
}

// An open file is one version of it to its end.
Outcome read_file(const std::string& folder, const Entry& entry, std::vector<char>& memory) {
  Outcome outcome;
  const int fd = ::open((folder + "/" + entry.name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    outcome.failed = why(entry);
    return outcome;
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const uint64_t file = verifiable::file_of(entry.name);
  uint64_t version = 0;
  while (outcome.bytes < entry.bytes) {
    const size_t wanted = std::min<uint64_t>(kStepBytes, entry.bytes - outcome.bytes);
    size_t got = 0;
    while (got < wanted) {
      const ssize_t n =
          ::pread(fd, memory.data() + got, wanted - got, static_cast<off_t>(outcome.bytes + got));
      if (n < 0 && errno == ESTALE) outcome.stale = true;
      if (n < 0 && errno != ESTALE) outcome.failed = why(entry);
      if (n == 0) outcome.wrong = entry.name + ": ends too early";
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    if (got < wanted) break;
    const auto found = verifiable::version_of(file, outcome.bytes, memory.data(), wanted);
    if (!found || (version != 0 && *found != version)) {
      outcome.wrong = entry.name + ": wrong bytes at " + std::to_string(outcome.bytes);
      break;
    }
    if (*found < entry.version) {
      outcome.wrong = entry.name + ": is of version " + std::to_string(*found) + " still";
      break;
    }
    version = *found;
    outcome.bytes += wanted;
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  return outcome;
}

// The directory of a file, which must be listed in it.
Outcome list_directory(const std::string& folder, const Entry& entry) {
  Outcome outcome;
  const std::filesystem::path path = std::filesystem::path(folder) / entry.name;
  DIR* directory = ::opendir(path.parent_path().c_str());
  if (directory == nullptr) {
    outcome.failed = why(entry);
    return outcome;
  }
  bool found = false;
  errno = 0;
  while (const dirent* one = ::readdir(directory)) found |= path.filename() == one->d_name;
  if (errno != 0) {
    outcome.failed = why(entry);
  } else if (!found) {
    outcome.wrong = entry.name + ": is not listed";
  }
  ::closedir(directory);
  return outcome;
}

int make(const std::string& folder, const std::vector<Entry>& entries) {
  std::vector<char> memory(kStepBytes);
  for (const Entry& entry : entries) {
    const std::filesystem::path path = std::filesystem::path(folder) / entry.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    for (uint64_t at = 0; at < entry.bytes; at += kStepBytes) {
      const size_t size = std::min<uint64_t>(kStepBytes, entry.bytes - at);
      verifiable::fill(verifiable::file_of(entry.name), entry.version, at, memory.data(), size);
      file.write(memory.data(), static_cast<std::streamsize>(size));
    }
    if (!file.flush()) {
      std::fprintf(stderr, "%s cannot be written\n", path.c_str());
      return 1;
    }
  }
  return 0;
}

int once(const std::string& folder, const std::vector<Entry>& entries, size_t threads) {
  Tally tally(threads);
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> pool;
  for (size_t thread = 0; thread < threads; ++thread) {
    pool.emplace_back([&, thread] {
      std::vector<char> memory(kStepBytes);
      for (size_t i = next++; i < entries.size(); i = next++) {
        tally.begin(thread);
        tally.end(thread, read_file(folder, entries[i], memory));
      }
    });
  }
  pool.clear();
  tally.print();
  return 0;
}

// Chooses the next read of a thread, records its start, and reads.
using Choose = std::function<Outcome(size_t thread, std::vector<char>& memory, Tally& tally)>;

int until_input_ends(size_t threads, const Choose& read) {
  Tally tally(threads);
  std::atomic<bool> over = false;
  std::vector<std::thread> pool;
  for (size_t thread = 0; thread < threads; ++thread) {
    pool.emplace_back([&, thread] {
      std::vector<char> memory(kStepBytes);
      while (!over) {
        const Outcome outcome = read(thread, memory, tally);
        tally.end(thread, outcome);
      }
    });
  }
  for (std::string line; std::getline(std::cin, line);) tally.print();
  over = true;
  for (auto& thread : pool) thread.join();
  tally.print();
  return 0;
}

// One a thread, each another one.
std::vector<std::mt19937_64> generators(size_t threads, uint64_t seed) {
  std::vector<std::mt19937_64> all;
  for (size_t thread = 0; thread < threads; ++thread) all.emplace_back(seed * 1000 + thread);
  return all;
}

int load(const std::string& folder, const std::vector<Entry>& entries, size_t threads,
         uint64_t seed, uint64_t list_every) {
  std::vector<std::mt19937_64> random = generators(threads, seed);
  return until_input_ends(threads, [&](size_t thread, std::vector<char>& memory, Tally& tally) {
    tally.begin(thread);
    const Entry& entry = entries[random[thread]() % entries.size()];
    const bool list = list_every != 0 && random[thread]() % list_every == 0;
    return list ? list_directory(folder, entry) : read_file(folder, entry, memory);
  });
}

int cycle(const std::string& folder, const std::vector<Entry>& entries, size_t threads) {
  std::atomic<size_t> next = 0;
  return until_input_ends(threads, [&](size_t thread, std::vector<char>& memory, Tally& tally) {
    tally.begin(thread);
    return read_file(folder, entries[next++ % entries.size()], memory);
  });
}

// Whole pages, as many as a power of two, of a file of its own each time; sizes of all magnitudes
// are as frequent.
Outcome read_part(const Entry& entry, int fd, std::mt19937_64& random, std::vector<char>& memory) {
  Outcome outcome;
  size_t size = kPageBytes << random() % 9;
  size = std::min<size_t>(size, entry.bytes);
  const uint64_t at = random() % ((entry.bytes - size) / kPageBytes + 1) * kPageBytes;
  const ssize_t got = ::pread(fd, memory.data(), size, static_cast<off_t>(at));
  if (got < 0) {
    outcome.failed = why(entry);
  } else if (static_cast<size_t>(got) != size ||
             !verifiable::version_of(verifiable::file_of(entry.name), at, memory.data(), size)) {
    outcome.wrong = entry.name + ": wrong bytes at " + std::to_string(at);
  } else {
    outcome.bytes = size;
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return outcome;
}

int parts(const std::string& folder, const std::vector<Entry>& entries, size_t threads,
          uint64_t seed, uint64_t rate) {
  std::vector<int> files;
  for (const Entry& entry : entries) {
    files.push_back(::open((folder + "/" + entry.name).c_str(), O_RDONLY | O_CLOEXEC));
    if (files.back() < 0) {
      std::fprintf(stderr, "%s\n", why(entry).c_str());
      return 1;
    }
    ::posix_fadvise(files.back(), 0, 0, POSIX_FADV_RANDOM);
  }
  std::vector<std::mt19937_64> random = generators(threads, seed);
  std::atomic<uint64_t> next = 0;
  const Now::time_point begin = Now::now();
  const auto choose = [&](size_t thread, std::vector<char>& memory, Tally& tally) {
    Now::time_point due = Now::now();
    if (rate != 0) {
      due = begin + std::chrono::nanoseconds(next++ * 1'000'000'000 / rate);
      std::this_thread::sleep_until(due);
    }
    tally.begin(thread, due);
    const size_t at = random[thread]() % entries.size();
    return read_part(entries[at], files[at], random[thread], memory);
  };
  return until_input_ends(threads, choose);
}

// One page of as many blocks, all at random: of the few pages that are read of a data set none lie
// next to each other.
int pages(const std::string& path, const std::string& name, uint64_t bytes, uint64_t count) {
  Tally tally(1);
  const int fd = ::open((path + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  const uint64_t all = bytes / kBlockBytes;
  if (fd < 0 || all < count || count == 0) {
    std::fprintf(stderr, "%s: %lu pages cannot be read\n", name.c_str(), count);
    return 1;
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const uint64_t file = verifiable::file_of(name);
  std::mt19937_64 random(20240607);
  std::vector<uint64_t> order(all);
  for (uint64_t block = 0; block < all; ++block) {
    order[block] = block * kBlockBytes + random() % (kBlockBytes / kPageBytes) * kPageBytes;
  }
  std::ranges::shuffle(order, random);
  std::vector<char> memory(kPageBytes);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = order[i];
    Outcome outcome;
    tally.begin(0);
    const ssize_t got = ::pread(fd, memory.data(), kPageBytes, static_cast<off_t>(at));
    if (got < 0) outcome.failed = name + ": " + std::strerror(errno);
    if (got == kPageBytes) outcome.bytes = kPageBytes;
    if (got >= 0 &&
        (got != kPageBytes || !verifiable::version_of(file, at, memory.data(), kPageBytes))) {
      outcome.wrong = name + ": wrong bytes at " + std::to_string(at);
    }
    tally.end(0, outcome);
  }
  ::close(fd);
  tally.print();
  return 0;
}

uint64_t number(const char* word) {
  return std::strtoull(word, nullptr, 10);
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  if (mode == "make" && count == 4) return make(words[2], read_list(words[3]));
  if (mode == "once" && count == 5) return once(words[2], read_list(words[3]), number(words[4]));
  if (mode == "load" && count == 7) {
    return load(words[2], read_list(words[3]), number(words[4]), number(words[5]),
                number(words[6]));
  }
  if (mode == "parts" && count == 7) {
    return parts(words[2], read_list(words[3]), number(words[4]), number(words[5]),
                 number(words[6]));
  }
  if (mode == "cycle" && count == 5) return cycle(words[2], read_list(words[3]), number(words[4]));
  if (mode == "pages" && count == 6) {
    return pages(words[2], words[3], number(words[4]), number(words[5]));
  }
  std::fprintf(stderr, "see the head of bench/clients/cluster_reader.cc\n");
  return 2;
}
