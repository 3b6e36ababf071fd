// SPDX-License-Identifier: Apache-2.0
// Trace: the history of one request as nested spans: the whole, and each wait, request and read
// within it. A request that waits carries one in its Context (see runtime/scoped_span.h). Modules
// add spans; only the creator of the trace reads them. Thread-safe.
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
  static constexpr uint32_t kTop = UINT32_MAX;  // the parent of top-level spans

  const char* what = "";   // of static lifetime: "request to the store"
  uint32_t parent = kTop;  // index in the list
  Time begin{}, end{};     // end == Time::max(): still running when the spans were copied
  std::string note{};      // for people: which store, how many bytes, the error

  bool ended() const { return end != Time::max(); }
};

class Trace {
 public:
  // Maximum number of spans. Further ones are counted and lost.
  static constexpr size_t kSpansMax = 200;

  // `detailed`: notes are wanted, which cost memory. Otherwise only failures have one.
  explicit Trace(bool detailed) : detailed_(detailed) {}
  Trace(const Trace&) = delete;

  bool detailed() const { return detailed_; }

  // Returns the index of the new span.
  uint32_t begin(uint32_t parent, const char* what);
  void end(uint32_t span);
  void note(uint32_t span, std::string text);
  // Adds a span that has ended.
  void add(uint32_t parent, const char* what, Span::Time begin, Span::Time end,
           std::string note = {});
  // Adds the spans of another trace below `parent`, for work that several requests share.
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
