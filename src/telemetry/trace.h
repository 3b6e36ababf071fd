// SPDX-License-Identifier: Apache-2.0
// Trace: what happened to one request, as spans that lie within each other: the whole, and each
// wait, request and read that it came to. A request that waits carries one in its Context (see
// runtime/traced.h); rooms add spans, and nobody but the one who made it looks at them.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat {

struct Span {
  using Time = std::chrono::steady_clock::time_point;
  static constexpr uint32_t kTop = UINT32_MAX;  // the parent of those within no other

  const char* what = "";   // of static life: "request to the store"
  uint32_t parent = kTop;  // its place in the list
  Time begin{}, end{};     // end == Time::max(): not over when this was looked at
  std::string note{};      // for people: which store, how many bytes, why it failed

  bool over() const { return end != Time::max(); }
};

class Trace {
 public:
  // So many spans are kept; what comes then is counted and lost.
  static constexpr size_t kSpansMax = 200;

  // `detailed`: somebody wants notes, which cost memory; else only failures have one.
  explicit Trace(bool detailed) : detailed_(detailed) {}
  Trace(const Trace&) = delete;

  bool detailed() const { return detailed_; }

  // The number of the new span.
  uint32_t begin(uint32_t parent, const char* what);
  void end(uint32_t span);
  void note(uint32_t span, std::string text);
  // One that is over.
  void add(uint32_t parent, const char* what, Span::Time begin, Span::Time end,
           std::string note = {});
  // The spans of another trace, below `parent`: of work that others asked for as well.
  void adopt(const Trace& other, uint32_t parent);

  std::vector<Span> spans() const;
  uint64_t lost() const;

 private:
  uint32_t append(Span span);

  const bool detailed_;
  mutable std::mutex mutex_;  // leaf
  std::vector<Span> spans_;
  uint64_t lost_ = 0;
};

}  // namespace leat
