// SPDX-License-Identifier: Apache-2.0
// The benchmarks' bad store: S3 from memory, with the objects of plan.h, on a port of loopback that
// it prints. Ends with its standard input, and then prints what it did as one JSON line.
//   bad_store throttled|stalls OBJECTS OBJECT_BYTES [RATE]
// throttled: RATE (200) requests a second, 20 at once; more are answered 503 SlowDown. A store with
// a RATE is behind a proxy. stalls: each connection serves one response. One in ten, at random,
// sends nothing more for 60 s: from the start, within the head, or within the body.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "source/bad_store_test.h"

namespace leat {
namespace {

using testing::BadStore;
using testing::S3Request;
using testing::StoreFault;
using testing::StoreTerms;

std::string numbered(uint64_t object, uint64_t size) {
  std::string content(size, '\0');
  for (uint64_t at = 0; at + 8 <= size; at += 8) {
    const uint64_t number = object * size + at;
    std::memcpy(content.data() + at, &number, 8);
  }
  return content;
}

int run(int count, char** words) {
  if (count != 4 && count != 5) {
    std::fprintf(stderr, "usage: %s throttled|stalls OBJECTS OBJECT_BYTES [RATE]\n", words[0]);
    return 2;
  }
  const bool stalls = std::strcmp(words[1], "stalls") == 0;
  StoreTerms terms{.is_signed = true, .is_behind_proxy = count == 5};
  if (stalls) {
    terms.closes = true;
  } else {
    terms.requests_per_second = count == 5 ? std::strtod(words[4], nullptr) : 200;
  }
  std::mt19937_64 random(std::random_device{}());
  auto plan = [&random, stalls](const S3Request&, unsigned) {  // one call at a time
    const bool falls = stalls && random() % 10 == 0;
    return StoreFault{.kind = falls ? StoreFault::Kind::kStall : StoreFault::Kind::kNone,
                      .salt = random()};
  };
  BadStore store(terms, plan);
  const uint64_t objects = std::strtoull(words[2], nullptr, 10);
  const uint64_t size = std::strtoull(words[3], nullptr, 10);
  for (uint64_t i = 0; i < objects; ++i) {
    store.objects().put("bad" + std::to_string(i), numbered(i, size));
  }
  std::printf("%s\n", store.endpoint().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  const BadStore::Counts counts = store.counts();
  std::printf("{\"requests\": %lu, \"throttled\": %lu, \"stalled\": %lu, \"violations\": %lu}\n",
              counts.requests, counts.throttled, counts.stalled, store.violations().size());
  return 0;
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  return leat::run(count, words);
}
