// SPDX-License-Identifier: Apache-2.0
// StoreReader: reads of one object through OpendalSource, for tests of the layers below it. It can
// also run this test program again with another environment, since the shim reads some variables
// only once.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executor.h"
#include "source/anonymous_bucket_test.h"
#include "source/lying_server_test.h"
#include "source/retry/retrying_source.h"
#include "source/stores/opendal_source.h"
#include "source/stores/version_forms_source.h"

namespace leat::testing {

// Byte `at` of every object of these tests: no two positions of a piece are alike.
inline char byte_at(uint64_t at) {
  return static_cast<char>('!' + (at * 31 + at / 89 * 7 + at / 8192) % 89);
}

inline std::string content(uint64_t offset, uint64_t size) {
  std::string text(size, '\0');
  for (uint64_t i = 0; i < size; ++i) text[i] = byte_at(offset + i);
  return text;
}

// The head of a correct response to a read of `size` bytes at `offset`, without its end.
inline std::string partial_head(uint64_t offset, uint64_t size) {
  return fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n", offset,
                     offset + size - 1, uint64_t{1} << 40);
}

// A correct response that keeps the connection.
inline std::string lawful(uint64_t offset, uint64_t size) {
  return fmt::format("{}Content-Length: {}\r\n\r\n{}", partial_head(offset, size), size,
                     content(offset, size));
}

// The range of a request.
inline std::pair<uint64_t, uint64_t> range_of(const std::string& request) {
  unsigned long long first = 0;
  unsigned long long last = 0;
  size_t at = request.find("range: bytes=");
  LEAT_CHECK(at != std::string::npos);
  LEAT_CHECK(sscanf(request.c_str() + at, "range: bytes=%llu-%llu", &first, &last) == 2);
  return {first, last - first + 1};
}

// Answers every request and keeps the connection.
inline void serve(const LyingServer::Exchange& exchange) {
  auto [offset, size] = range_of(exchange.request);
  exchange.send(lawful(offset, size));
  exchange.keep();
}

class StoreReader {
 public:
  explicit StoreReader(const std::string& endpoint) : config(anonymous_bucket(endpoint)) {
    timeouts.report = &report;
  }

  // Reads with the present config and timeouts; the first read opens the source.
  Result<std::string> read(uint64_t offset, uint64_t size, std::string key = "key",
                           Version version = {}) {
    std::string into(size, '?');
    report = {};
    Context patience = Context::background().with_timeout(std::chrono::seconds(20));
    ReadRequest request{std::move(key), {offset, size}, std::move(version), timeouts, object_size};
    auto task = source().read(patience, request, std::as_writable_bytes(std::span(into)));
    Result<> done = executor.block_on(std::move(task));
    if (!done) return Error(done.error());
    return into;
  }

  // Whether a read returns the right bytes.
  ::testing::AssertionResult reads(uint64_t offset, uint64_t size) {
    Result<std::string> got = read(offset, size);
    if (!got) return ::testing::AssertionFailure() << got.error().to_string();
    const std::string right = content(offset, size);
    auto [wrong, _] = std::ranges::mismatch(*got, right);
    if (wrong == got->end()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "wrong bytes at " << wrong - got->begin();
  }

  // Returns the failure of a read that must not succeed.
  Status failure(uint64_t offset, uint64_t size) {
    Result<std::string> got = read(offset, size);
    EXPECT_FALSE(got) << "read " << *got;
    return got ? Status(StatusCode::kUnsupported, "no failure") : got.error();
  }

  Source& source() {
    if (source_) return *source_;
    source_ = OpendalSource::open(config).value();
    if (attempts > 1) {
      RetryOptions options;
      options.attempts_max = attempts;
      options.backoff_min = std::chrono::milliseconds(1);
      // Only the timeouts bound an attempt's silence.
      options.attempt_timeout_min = options.list_timeout_min = options.attempt_timeout_max =
          std::chrono::hours(1);
      source_ = RetryingSource::make(source_, std::move(options));
    }
    if (finds_forms) source_ = std::make_shared<VersionFormsSource>(source_);
    return *source_;
  }

  OpendalConfig config;
  unsigned attempts = 1;
  bool finds_forms = false;  // find version forms, as a mount does
  uint64_t object_size = 0;  // as the reader knows it; 0: unknown
  AttemptTimeouts timeouts;
  AttemptReport report;
  Executor executor;

 private:
  SourcePtr source_;
};

struct ChildResult {
  int status;  // of exit; -1 when it died
  std::string output;
};

// Runs this program's tests that match `filter` with `environment` in addition: "NAME=value", or
// "NAME" to unset a variable.
inline ChildResult run_again(const std::string& filter, std::vector<std::string> environment) {
  int ends[2];
  LEAT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  std::vector<std::string> texts = std::move(environment);
  for (char** own = environ; *own != nullptr; ++own) {
    std::string_view name(*own, std::string_view(*own).find('='));
    bool replaced = false;
    for (const std::string& text : texts) replaced |= text.substr(0, text.find('=')) == name;
    if (!replaced && !name.starts_with("GTEST_")) texts.emplace_back(*own);
  }
  std::vector<char*> variables;
  for (std::string& text : texts) {
    if (text.contains('=')) variables.push_back(text.data());
  }
  variables.push_back(nullptr);
  std::string program = "/proc/self/exe";
  std::string argument = "--gtest_filter=" + filter;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = fork();
  LEAT_CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve(program.c_str(), arguments, variables.data());
    _exit(127);
  }
  close(ends[1]);
  ChildResult result{-1, {}};
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.output.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

}  // namespace leat::testing
