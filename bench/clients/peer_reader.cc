// SPDX-License-Identifier: Apache-2.0
// Reads bytes from a worker's peer server, or from what it is compared with (bare_server.cc), over
// persistent connections from one thread.
//
//   leat_bench_peer check ADDRESS TOKEN MOUNT DIRECTORY [CA CERTIFICATE KEY]
//   leat_bench_peer leat ADDRESS TOKEN MOUNT DIRECTORY BYTES CONNECTIONS SECONDS
//   leat_bench_peer tls ADDRESS TOKEN MOUNT DIRECTORY BYTES CONNECTIONS SECONDS CA CERTIFICATE KEY
//   leat_bench_peer reads ADDRESS TOKEN MOUNT DIRECTORY BYTES READERS SECONDS TOGETHER
//   leat_bench_peer beast ADDRESS BYTES CONNECTIONS SECONDS NAME…
//   leat_bench_peer raw ADDRESS NAME FILE_BYTES BYTES CONNECTIONS SECONDS
//   leat_bench_peer pingpong ADDRESS NAME BYTES COUNT
// `check` reads all files of a directory of the mount and compares every byte; the others compare
// both ends of each response. `reads`: by the client that mounts use, which puts up to TOGETHER
// small reads into one request. BYTES: of each range. NAME: of the served file, which its bytes
// encode. TLS is our own HTTP client's. Each prints a line of JSON.
#include <algorithm>
#include <string>
#include <vector>

#include "http/client.h"
#include "own_cpu.h"
#include "worker_objects.h"

namespace leat {
namespace {

using raw::RawRequest;

uint64_t number(const std::string& word) {
  return std::strtoull(word.c_str(), nullptr, 10);
}

// Ranges of BYTES, object by object, again and again.
class Ranges {
 public:
  Ranges(const WorkerEndpoint& worker, std::vector<SourceObject> objects, uint64_t bytes)
      : worker_(worker), objects_(std::move(objects)), bytes_(bytes) {
    std::erase_if(objects_, [&](const SourceObject& one) { return one.size < bytes; });
    if (objects_.empty()) raw::fail("no file is as large as a range");
  }
  PeerReadRequest next(raw::RawRequest& expected) {
    const SourceObject& object = objects_[at_];
    expected = {.file = content_file(worker_, object), .offset = offset_, .size = bytes_};
    const PeerReadRequest read = read_of(worker_, object, {offset_, bytes_});
    offset_ += bytes_;
    if (offset_ + bytes_ > object.size) {
      offset_ = 0;
      at_ = (at_ + 1) % objects_.size();
    }
    return read;
  }

 private:
  const WorkerEndpoint& worker_;
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

// The read as a client sends it.
PeerRead by_peer(const WorkerEndpoint& worker, const PeerReadRequest& read) {
  return {.mount = read.mount,
          .file = std::make_shared<const FileRef>(read.file),
          .range = read.range,
          .route = {.epoch = worker.epoch}};
}

int check(const WorkerEndpoint& worker, const std::vector<SourceObject>& objects,
          Executor& executor) {
  constexpr uint64_t kStep = 8 * kMiB;
  std::vector<char> memory(kStep);
  uint64_t bytes = 0;
  for (const SourceObject& object : objects) {
    for (uint64_t at = 0; at < object.size; at += kStep) {
      const uint64_t size = std::min(kStep, object.size - at);
      const auto into = std::as_writable_bytes(std::span(memory).first(size));
      auto reply = executor.block_on(worker.client->read(
          for_a_while(), by_peer(worker, read_of(worker, object, {at, size})), into));
      if (!reply.result) raw::fail(object.key + ": " + reply.result.error().to_string());
      if (!verifiable::version_of(content_file(worker, object), at, memory.data(), size)) {
        raw::fail(object.key + ": wrong bytes at " + std::to_string(at));
      }
      bytes += size;
    }
  }
  std::printf("{\"files\": %zu, \"bytes\": %lu}\n", objects.size(), bytes);
  return 0;
}

Task<> request_until(const WorkerEndpoint& worker, HttpClient client, Ranges& ranges,
                     uint64_t bytes, Clock::time_point end, uint64_t& answered) {
  std::vector<std::byte> memory(bytes);
  while (Clock::now() < end) {
    raw::RawRequest expected;
    HttpRequest request = signed_request(worker, ranges.next(expected));
    std::vector<std::span<std::byte>> pieces = {memory};
    auto response = co_await client.request_into(for_a_while(), std::move(request),
                                                 {.pieces = std::move(pieces)});
    if (!response) raw::fail(response.error().to_string());
    if (response->status != 206) raw::fail("rejected: " + response->body);
    raw::check_ends(expected, reinterpret_cast<const char*>(memory.data()));
    ++answered;
  }
}

int request_over_tls(const WorkerEndpoint& worker, Ranges ranges, uint64_t bytes,
                     unsigned connections, double seconds) {
  Executor executor({.threads = 1});
  HttpClient client(*HttpEndpoint::parse(worker.address),
                    {.tls = worker.tls, .connections_max = connections});
  const auto begin = Clock::now();
  uint64_t answered = 0;
  std::vector<std::future<void>> clients;
  for (unsigned i = 0; i < connections; ++i) {
    clients.push_back(boost::asio::co_spawn(
        executor.any(),
        request_until(worker, client, ranges, bytes, after(begin, seconds), answered),
        boost::asio::use_future));
  }
  for (auto& one : clients) one.get();
  std::printf("{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.4f}\n", answered,
              answered * bytes, seconds_since(begin));
  return 0;
}

// `seconds` gets the duration of each read.
Task<> read_until(const WorkerEndpoint& worker, Ranges& ranges, uint64_t bytes,
                  Clock::time_point end, std::vector<double>& seconds) {
  std::vector<char> memory(bytes);
  while (Clock::now() < end) {
    raw::RawRequest expected;
    PeerRead read = by_peer(worker, ranges.next(expected));
    const auto begin = Clock::now();
    auto reply = co_await worker.client->read(for_a_while(), std::move(read),
                                              std::as_writable_bytes(std::span(memory)));
    if (!reply.result) raw::fail(reply.result.error().to_string());
    seconds.push_back(seconds_since(begin));
    raw::check_ends(expected, memory.data());
  }
}

int read_by_client(const WorkerEndpoint& worker, Ranges ranges, uint64_t bytes, size_t readers,
                   double seconds, Executor& executor) {
  std::vector<std::vector<double>> took(readers);
  std::vector<std::future<void>> running;
  const double cpu = own_cpu_seconds();
  const auto begin = Clock::now();
  for (std::vector<double>& each : took) {
    running.push_back(boost::asio::co_spawn(
        executor.any(), read_until(worker, ranges, bytes, after(begin, seconds), each),
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
  const WorkerEndpoint worker =
      connect_to_worker(words[0], words[1], words[2], certificates, executor, together);
  std::vector<SourceObject> objects = objects_in(worker, words[3], executor);
  if (mode == "check") return check(worker, objects, executor);
  const uint64_t bytes = number(words[4]);
  const size_t connections = number(words[5]);
  const double seconds = std::atof(words[6].c_str());
  Ranges ranges(worker, std::move(objects), bytes);
  if (mode == "reads") {
    return read_by_client(worker, std::move(ranges), bytes, connections, seconds, executor);
  }
  if (mode == "tls") {
    return request_over_tls(worker, std::move(ranges), bytes, static_cast<unsigned>(connections),
                            seconds);
  }
  raw::RawClient({worker.address, connections, seconds, bytes, true}, [&] {
    raw::RawRequest request;
    const PeerReadRequest read = ranges.next(request);
    request.text = text_of(worker, signed_request(worker, read));
    return request;
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
  raw::RawClient({words[0], number(words[2]), std::atof(words[3].c_str()), bytes, true}, [&] {
    const uint64_t at = next++ % names.size();
    return raw::RawRequest{"GET /" + std::to_string(at) + rest, verifiable::file_of(names[at]), 0,
                           bytes};
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
  raw::RawClient({words[0], number(words[4]), std::atof(words[5].c_str()), bytes, false}, [&] {
    if (offset + bytes > all) offset = 0;
    const raw::RawRequest request{range_words(offset, bytes), verifiable::file_of(words[1]), offset,
                                  bytes};
    offset += bytes;
    return request;
  }).run();
  return 0;
}

int pingpong(const std::vector<std::string>& words) {
  const uint64_t bytes = number(words[2]), count = number(words[3]);
  const int fd = raw::connect_to(words[0]);
  const std::string text = range_words(0, bytes);
  const raw::RawRequest expected{text, verifiable::file_of(words[1]), 0, bytes};
  std::vector<char> memory(bytes);
  std::vector<double> seconds;
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    if (::send(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return 1;
    if (::recv(fd, memory.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) return 1;
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    raw::check_ends(expected, memory.data());
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
  if (status == 2) std::fprintf(stderr, "see the head of bench/clients/peer_reader.cc\n");
  return status;
}
