// SPDX-License-Identifier: Apache-2.0
// Asks a worker's data door, or what it is measured against (bare_server.cc), for bytes over kept
// connections from one thread.
//
//   leat_bench_door check ADDRESS TOKEN MOUNT DIRECTORY [CA CERTIFICATE KEY]
//   leat_bench_door leat ADDRESS TOKEN MOUNT DIRECTORY BYTES CONNECTIONS SECONDS
//   leat_bench_door tls ADDRESS TOKEN MOUNT DIRECTORY BYTES CONNECTIONS SECONDS CA CERTIFICATE KEY
//   leat_bench_door reads ADDRESS TOKEN MOUNT DIRECTORY BYTES READERS SECONDS TOGETHER
//   leat_bench_door beast ADDRESS BYTES CONNECTIONS SECONDS NAME…
//   leat_bench_door raw ADDRESS NAME FILE_BYTES BYTES CONNECTIONS SECONDS
//   leat_bench_door pingpong ADDRESS NAME BYTES COUNT
// `check` reads all files of a directory of the mount and compares every byte; the others compare
// both ends of each answer. `reads`: by the client that folders have, which asks for up to TOGETHER
// small reads in one request. BYTES: of each range. NAME: of the file that is served, which its
// bytes tell of. TLS is our own HTTP client's. Each prints a line of JSON.
#include <algorithm>
#include <string>
#include <vector>

#include "door_objects.h"
#include "http/client.h"
#include "own_cpu.h"

namespace leat {
namespace {

using asker::Question;

uint64_t number(const std::string& word) {
  return std::strtoull(word.c_str(), nullptr, 10);
}

// Ranges of BYTES, object by object, again and again.
class Ranges {
 public:
  Ranges(const Door& door, std::vector<SourceObject> objects, uint64_t bytes)
      : door_(door), objects_(std::move(objects)), bytes_(bytes) {
    std::erase_if(objects_, [&](const SourceObject& one) { return one.size < bytes; });
    if (objects_.empty()) asker::fail("no file is as large as a range");
  }
  PeerReadRequest next(Question& asked) {
    const SourceObject& object = objects_[at_];
    asked = {.file = told_file(door_, object), .offset = offset_, .size = bytes_};
    const PeerReadRequest read = read_of(door_, object, {offset_, bytes_});
    offset_ += bytes_;
    if (offset_ + bytes_ > object.size) {
      offset_ = 0;
      at_ = (at_ + 1) % objects_.size();
    }
    return read;
  }

 private:
  const Door& door_;
  std::vector<SourceObject> objects_;
  const uint64_t bytes_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
};

Clock::time_point after(Clock::time_point begin, double seconds) {
  return begin +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// As a client has it read.
PeerRead by_peer(const Door& door, const PeerReadRequest& read) {
  return {.mount = read.mount,
          .file = std::make_shared<const FileRef>(read.file),
          .range = read.range,
          .route = {.epoch = door.epoch}};
}

int check(const Door& door, const std::vector<SourceObject>& objects, Executor& executor) {
  constexpr uint64_t kStep = 8 * kMiB;
  std::vector<char> memory(kStep);
  uint64_t bytes = 0;
  for (const SourceObject& object : objects) {
    for (uint64_t at = 0; at < object.size; at += kStep) {
      const uint64_t size = std::min(kStep, object.size - at);
      const auto into = std::as_writable_bytes(std::span(memory).first(size));
      auto reply = executor.wait(
          door.client->read(for_a_while(), by_peer(door, read_of(door, object, {at, size})), into));
      if (!reply.result) asker::fail(object.key + ": " + reply.result.error().to_string());
      if (!told::version_of(told_file(door, object), at, memory.data(), size)) {
        asker::fail(object.key + ": wrong bytes at " + std::to_string(at));
      }
      bytes += size;
    }
  }
  std::printf("{\"files\": %zu, \"bytes\": %lu}\n", objects.size(), bytes);
  return 0;
}

Task<> ask_until(const Door& door, HttpClient client, Ranges& ranges, uint64_t bytes,
                 Clock::time_point end, uint64_t& answered) {
  std::vector<std::byte> memory(bytes);
  while (Clock::now() < end) {
    Question asked;
    HttpRequest request = signed_request(door, ranges.next(asked));
    std::vector<std::span<std::byte>> pieces = {memory};
    auto response = co_await client.request_into(for_a_while(), std::move(request),
                                                 {.pieces = std::move(pieces)});
    if (!response) asker::fail(response.error().to_string());
    if (response->status != 206) asker::fail("refused: " + response->body);
    asker::check_ends(asked, reinterpret_cast<const char*>(memory.data()));
    ++answered;
  }
}

int ask_over_tls(const Door& door, Ranges ranges, uint64_t bytes, unsigned connections,
                 double seconds) {
  Executor executor({.threads = 1});
  HttpClient client(*HttpEndpoint::parse(door.address),
                    {.tls = door.tls, .connections_max = connections});
  const auto begin = Clock::now();
  uint64_t answered = 0;
  std::vector<std::future<void>> askers;
  for (unsigned i = 0; i < connections; ++i) {
    askers.push_back(boost::asio::co_spawn(
        executor.any(), ask_until(door, client, ranges, bytes, after(begin, seconds), answered),
        boost::asio::use_future));
  }
  for (auto& one : askers) one.get();
  std::printf("{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.4f}\n", answered,
              answered * bytes, seconds_since(begin));
  return 0;
}

// `seconds` is how long each has taken.
Task<> read_until(const Door& door, Ranges& ranges, uint64_t bytes, Clock::time_point end,
                  std::vector<double>& seconds) {
  std::vector<char> memory(bytes);
  while (Clock::now() < end) {
    Question asked;
    PeerRead read = by_peer(door, ranges.next(asked));
    const auto begin = Clock::now();
    auto reply = co_await door.client->read(for_a_while(), std::move(read),
                                            std::as_writable_bytes(std::span(memory)));
    if (!reply.result) asker::fail(reply.result.error().to_string());
    seconds.push_back(seconds_since(begin));
    asker::check_ends(asked, memory.data());
  }
}

int read_by_client(const Door& door, Ranges ranges, uint64_t bytes, size_t readers, double seconds,
                   Executor& executor) {
  std::vector<std::vector<double>> took(readers);
  std::vector<std::future<void>> running;
  const double cpu = own_cpu_seconds();
  const auto begin = Clock::now();
  for (std::vector<double>& each : took) {
    running.push_back(boost::asio::co_spawn(
        executor.any(), read_until(door, ranges, bytes, after(begin, seconds), each),
        boost::asio::use_future));
  }
  for (auto& one : running) one.get();
  const double wall = seconds_since(begin);
  std::vector<double> all;
  for (const std::vector<double>& each : took) all.insert(all.end(), each.begin(), each.end());
  std::ranges::sort(all);
  std::printf(
      "{\"requests\": %zu, \"bytes\": %lu, \"seconds\": %.4f, \"own_cpu_s\": %.4f, "
      "\"p50_s\": %.9f, \"p99_s\": %.9f}\n",
      all.size(), all.size() * bytes, wall, own_cpu_seconds() - cpu, all[all.size() / 2],
      all[all.size() * 99 / 100]);
  return 0;
}

int of_a_worker(const std::string& mode, const std::vector<std::string>& words) {
  const size_t fixed = mode == "check" ? 4 : mode == "reads" ? 8 : 7;
  if (words.size() != fixed && words.size() != fixed + 3) return 2;
  const std::vector<std::string> certificates(words.begin() + static_cast<ptrdiff_t>(fixed),
                                              words.end());
  Executor executor({.threads = 1});
  const size_t together = mode == "reads" ? number(words[7]) : 1;
  const Door door = open_door(words[0], words[1], words[2], certificates, executor, together);
  std::vector<SourceObject> objects = objects_in(door, words[3], executor);
  if (mode == "check") return check(door, objects, executor);
  const uint64_t bytes = number(words[4]);
  const size_t connections = number(words[5]);
  const double seconds = std::atof(words[6].c_str());
  Ranges ranges(door, std::move(objects), bytes);
  if (mode == "reads") {
    return read_by_client(door, std::move(ranges), bytes, connections, seconds, executor);
  }
  if (mode == "tls") {
    return ask_over_tls(door, std::move(ranges), bytes, static_cast<unsigned>(connections),
                        seconds);
  }
  asker::RawAsker({door.address, connections, seconds, bytes, true}, [&] {
    Question asked;
    const PeerReadRequest read = ranges.next(asked);
    asked.text = text_of(door, signed_request(door, read));
    return asked;
  }).run();
  return 0;
}

// Its files in turn, as those of a worker.
int of_beast(const std::vector<std::string>& words) {
  const uint64_t bytes = number(words[1]);
  const std::vector<std::string> names(words.begin() + 4, words.end());
  // As long as a signed request is.
  const std::string rest =
      " HTTP/1.1\r\nHost: " + words[0] + "\r\nleat-token: " + std::string(600, 'x') + "\r\n\r\n";
  uint64_t next = 0;
  asker::RawAsker({words[0], number(words[2]), std::atof(words[3].c_str()), bytes, true}, [&] {
    const uint64_t at = next++ % names.size();
    return Question{"GET /" + std::to_string(at) + rest, told::file_of(names[at]), 0, bytes};
  }).run();
  return 0;
}

std::string range_words(uint64_t offset, uint64_t size) {
  const uint64_t range[2] = {offset, size};
  return {reinterpret_cast<const char*>(range), sizeof range};
}

int of_raw(const std::vector<std::string>& words) {
  const uint64_t all = number(words[2]), bytes = number(words[3]);
  uint64_t offset = 0;
  asker::RawAsker({words[0], number(words[4]), std::atof(words[5].c_str()), bytes, false}, [&] {
    if (offset + bytes > all) offset = 0;
    const Question asked{range_words(offset, bytes), told::file_of(words[1]), offset, bytes};
    offset += bytes;
    return asked;
  }).run();
  return 0;
}

int pingpong(const std::vector<std::string>& words) {
  const uint64_t bytes = number(words[2]), count = number(words[3]);
  const int fd = asker::connect_to(words[0]);
  const std::string text = range_words(0, bytes);
  const Question asked{text, told::file_of(words[1]), 0, bytes};
  std::vector<char> memory(bytes);
  std::vector<double> seconds;
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    if (::send(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return 1;
    if (::recv(fd, memory.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) return 1;
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    asker::check_ends(asked, memory.data());
  }
  std::ranges::sort(seconds);
  std::printf("{\"requests\": %lu, \"p50_s\": %.9f, \"p99_s\": %.9f}\n", count, seconds[count / 2],
              seconds[count * 99 / 100]);
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) return 2;
  const std::string& mode = words[0];
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (mode == "check" || mode == "leat" || mode == "reads" || mode == "tls") {
    return of_a_worker(mode, rest);
  }
  if (mode == "beast" && rest.size() > 4) return of_beast(rest);
  if (mode == "raw" && rest.size() == 6) return of_raw(rest);
  if (mode == "pingpong" && rest.size() == 4) return pingpong(rest);
  return 2;
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  const int status = leat::run({words + 1, words + count});
  if (status == 2) std::fprintf(stderr, "see the head of bench/clients/door_client.cc\n");
  return status;
}
