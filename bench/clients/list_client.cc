// SPDX-License-Identifier: Apache-2.0
// The benchmarks' listing through module `source`: all pages of a bucket, one after the other, as a
// catalog requests them.
//   list_client ENDPOINT BUCKET        prints one JSON line

#include <chrono>
#include <cstdio>
#include <string>

#include "own_cpu.h"
#include "runtime/executor.h"
#include "source/source.h"

namespace leat {
namespace {

int run(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s ENDPOINT BUCKET\n", words[0]);
    return 2;
  }
  const std::string url = std::string("s3://") + words[2] + "?endpoint=" + words[1];
  Executor executor;
  SourcePtr source = open_source(StoreUrl::parse(url).value()).value();
  const auto start = std::chrono::steady_clock::now();
  uint64_t keys = 0, pages = 0;
  std::string last;
  ListRequest request{.prefix = "", .recursive = true, .token = ""};
  do {
    Result<ListPage> page = executor.block_on(source->list(Context::background(), request));
    if (!page) {
      std::fprintf(stderr, "%s\n", page.error().to_string().c_str());
      return 1;
    }
    for (const SourceObject& object : page->objects) {
      if (object.key <= last || !object.version.known()) {
        std::fprintf(stderr, "'%s' after '%s'\n", object.key.c_str(), last.c_str());
        return 1;
      }
      last = object.key;
    }
    keys += page->objects.size();
    ++pages;
    request.token = page->next_token;
  } while (!request.token.empty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("{\"keys\": %lu, \"pages\": %lu, \"seconds\": %.6f, \"cpu_s\": %.6f}\n", keys, pages,
              took.count(), own_cpu_seconds());
  return 0;
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  return leat::run(count, words);
}
