// SPDX-License-Identifier: Apache-2.0
// Minimal servers that a worker's peer server is compared with.
//
//   leat_bench_bare beast HOST FILE…   HTTP by Beast on one thread, files by number from memory
//   leat_bench_bare file HOST FILE     TCP, a thread a connection: ranges of the file by sendfile
//   leat_bench_bare memory HOST FILE   the same from memory by write, which is a ping-pong
// A request of the last two is two numbers of 64 bits, offset and size; the answer is the bytes.
// The port is printed; they end when their input does.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bare_beast.h"

namespace leat {
namespace {

using Tcp = boost::asio::ip::tcp;

std::string bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

void say_port_and_wait(unsigned port) {
  std::printf("%u\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);  // does not wait for requests in flight
}

void beast(const char* host, const std::vector<const char*>& paths) {
  std::vector<std::string> bodies;
  for (const char* path : paths) bodies.push_back(bytes_of(path));
  Executor executor({.threads = 1});
  Tcp::acceptor acceptor(executor.any(), Tcp::endpoint(boost::asio::ip::make_address(host), 0));
  executor.spawn(accept_bare(&executor, &acceptor, &bodies));
  say_port_and_wait(acceptor.local_endpoint().port());
}

struct Range {
  uint64_t offset, size;
};

bool send_all(int to, int file, const std::string& memory, Range range) {
  auto at = static_cast<off_t>(range.offset);
  while (range.size > 0) {
    const ssize_t sent = file >= 0 ? ::sendfile(to, file, &at, range.size)
                                   : ::send(to, memory.data() + at, range.size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    if (file < 0) at += sent;
    range.size -= static_cast<uint64_t>(sent);
  }
  return true;
}

void raw(const char* host, const char* path, bool from_memory) {
  static std::string memory;
  static int file = -1;
  if (from_memory) {
    memory = bytes_of(path);
  } else {
    file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) std::abort();
  }
  boost::asio::io_context context;
  Tcp::acceptor acceptor(context, Tcp::endpoint(boost::asio::ip::make_address(host), 0));
  std::thread([&acceptor] {
    for (;;) {
      const int fd = acceptor.accept().release();
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::thread([fd] {
        Range range{};
        while (::recv(fd, &range, sizeof range, MSG_WAITALL) == sizeof range &&
               send_all(fd, file, memory, range)) {
        }
        ::close(fd);
      }).detach();
    }
  }).detach();
  say_port_and_wait(acceptor.local_endpoint().port());
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  const std::string mode = count >= 4 ? words[1] : "";
  if (mode == "beast") {
    leat::beast(words[2], {words + 3, words + count});
  } else if (mode == "file" || mode == "memory") {
    leat::raw(words[2], words[3], mode == "memory");
  }
  std::fprintf(stderr, "leat_bench_bare beast|file|memory HOST FILE…\n");
  return 2;
}
