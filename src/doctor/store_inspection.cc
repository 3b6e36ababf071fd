// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/units.h"
#include "doctor/store_findings.h"
#include "runtime/executor.h"
#include "source/source.h"

namespace leat {
namespace {

constexpr int kSmallRequests = 5;
constexpr uint64_t kReadBytesMax = 8 * kMiB;
// Maximum depth of the search for a first file.
constexpr int kDepthMax = 8;

class StoreProbe {
 public:
  StoreProbe(SourcePtr source, StoreFacts& facts, Clock::duration timeout)
      : source_(std::move(source)),
        facts_(facts),
        context_(Context::background().with_timeout(timeout)) {}

  void run(const std::string& prefix) {
    std::optional<SourceObject> file = first_file(prefix);
    if (!file) {
      facts_.empty = !facts_.trouble;
      return;
    }
    measure_latency(*file);
    if (!facts_.trouble) measure_reading(*file);
  }

 private:
  void fail(const char* doing, Status why) {
    facts_.doing = doing;
    facts_.trouble = std::move(why);
  }

  std::optional<SourceObject> first_file(std::string prefix) {
    for (int depth = 0; depth < kDepthMax; ++depth) {
      ListRequest request;
      request.prefix = prefix;
      Result<ListPage> page = executor_.block_on(source_->list(context_, std::move(request)));
      if (!page) {
        fail("listing", page.error());
        return std::nullopt;
      }
      auto file = std::ranges::find_if(page->objects, [](const SourceObject& object) {
        return object.kind == FileKind::kFile && object.size > 0;
      });
      if (file != page->objects.end()) return *file;
      auto folder = std::ranges::find(page->objects, FileKind::kDirectory, &SourceObject::kind);
      if (folder == page->objects.end()) return std::nullopt;
      prefix = folder->key;
    }
    return std::nullopt;
  }

  void measure_latency(const SourceObject& file) {
    std::vector<Clock::duration> times;
    for (int i = 0; i < kSmallRequests; ++i) {
      const auto begun = Clock::now();
      Result<SourceObject> found =
          executor_.block_on(source_->stat(context_, StatRequest{.key = file.key}));
      if (!found) return fail("stat", found.error());
      times.push_back(Clock::now() - begun);
    }
    std::ranges::sort(times);
    facts_.latency = times[times.size() / 2];
  }

  void measure_reading(const SourceObject& file) {
    Buffer buffer(std::min(file.size, kReadBytesMax));
    ReadRequest request{.key = file.key,
                        .range = {0, buffer.size()},
                        .if_version = file.version,
                        .object_size = file.size};
    const auto begun = Clock::now();
    Result<> read = executor_.block_on(source_->read(context_, std::move(request), buffer.span()));
    if (!read) return fail("reading", read.error());
    facts_.read_bytes = buffer.size();
    facts_.read_time = Clock::now() - begun;
  }

  Executor executor_{{.threads = 1, .blocking_threads = 2}};
  const SourcePtr source_;
  StoreFacts& facts_;
  const Context context_;
};

}  // namespace

StoreFacts inspect_store(const StoreUrl& url, Clock::duration timeout) {
  StoreFacts facts{.source = url.to_string(), .s3 = url.scheme == "s3"};
  Result<SourcePtr> source = open_source(url);
  if (!source) {
    facts.doing = "opening";
    facts.trouble = source.error();
    return facts;
  }
  StoreProbe(*std::move(source), facts, timeout).run(url.prefix);
  return facts;
}

}  // namespace leat
