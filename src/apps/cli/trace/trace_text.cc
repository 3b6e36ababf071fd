// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/trace/trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text_table.h"
#include "base/units.h"

namespace leat {
namespace {

// Wide enough for several seconds, so that the columns of requests align.
std::string milliseconds(double seconds) {
  return fmt::format("{:7.1f}", seconds * 1e3);
}

class Writer {
 public:
  explicit Writer(const RequestView& request) : request_(request) {}

  std::string write() {
    table_.add({milliseconds(0), milliseconds(request_.seconds), title()});
    write_below(std::nullopt, "");
    std::string text = table_.to_string();
    if (request_.spans_lost > 0) {
      text += fmt::format("\n({} more were not kept)", request_.spans_lost);
    }
    return text;
  }

 private:
  std::string title() const {
    std::string text = request_.operation;
    if (text == "read") {
      text += fmt::format(" of {} at {}", format_bytes(request_.bytes), request_.offset);
    }
    if (request_.spans.empty()) text += ": answered inline, from memory";
    if (!request_.failure.empty()) text += ": " + request_.failure;
    return text;
  }

  void write_below(std::optional<uint64_t> parent, const std::string& indent) {
    std::vector<size_t> places;
    for (size_t i = 0; i < request_.spans.size(); ++i) {
      // A span always follows its parent. Skip malformed ones, which would recurse for ever.
      const SpanView& span = request_.spans[i];
      if (span.parent == parent && (!span.parent || *span.parent < i)) places.push_back(i);
    }
    std::ranges::sort(places, {},
                      [this](size_t i) { return std::pair(request_.spans[i].begin, i); });
    for (size_t place : places) {
      const SpanView& span = request_.spans[place];
      const bool last = place == places.back();
      std::string text = indent + (last ? "└ " : "├ ") + span.what;
      if (!span.note.empty()) text += ": " + span.note;
      table_.add(
          {milliseconds(span.begin), span.seconds ? milliseconds(*span.seconds) : "…", text});
      write_below(place, indent + (last ? "  " : "│ "));
    }
  }

  const RequestView& request_;
  TextTable table_{"rrl"};
};

}  // namespace

std::string trace_text(const RequestView& request) {
  return Writer(request).write();
}

}  // namespace leat
