// SPDX-License-Identifier: Apache-2.0
// Memory at hand. A virtual machine gives free memory back to its host, at once and for as long as
// there is any, and getting it again can cost seconds a GiB, which whoever needs memory next would
// pay: measurements would be of the host. So this program holds free memory and releases it
// as other programs need it.
//
//   ballast BYTES     holds at most so many; each line on standard input: takes what is free now
//                     and answers with the bytes that it holds. Ends with its standard input.
#include <poll.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPiece = 256 * kMiB;
// Memory that stays free: below the first limit, pieces are released.
constexpr uint64_t kFreeMin = 768 * kMiB, kFreeMax = 1536 * kMiB;
constexpr int kLookEveryMs = 5;

uint64_t free_bytes() {
  struct sysinfo now{};
  ::sysinfo(&now);
  return static_cast<uint64_t>(now.freeram) * now.mem_unit;
}

class Ballast {
 public:
  explicit Ballast(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void take() {
    while (held() + kPiece <= bytes_max_ && free_bytes() >= kFreeMax + kPiece) {
      void* const piece =
          ::mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (piece == MAP_FAILED) return;
      ::madvise(piece, kPiece, MADV_HUGEPAGE);
      std::memset(piece, 1, kPiece);
      pieces_.push_back(piece);
    }
  }
  void let_go() {
    while (!pieces_.empty() && free_bytes() < kFreeMin) {
      ::munmap(pieces_.back(), kPiece);
      pieces_.pop_back();
    }
  }
  uint64_t held() const { return pieces_.size() * kPiece; }

 private:
  const uint64_t bytes_max_;
  std::vector<void*> pieces_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ballast BYTES\n");
    return 2;
  }
  // If memory should run out all the same.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  Ballast ballast(std::strtoull(argv[1], nullptr, 10));
  for (;;) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, kLookEveryMs) > 0) {
      char asked[64];
      if (::read(STDIN_FILENO, asked, sizeof asked) <= 0) return 0;
      ballast.take();
      std::printf("%llu\n", static_cast<unsigned long long>(ballast.held()));
      std::fflush(stdout);
    }
    ballast.let_go();
  }
}
