// SPDX-License-Identifier: Apache-2.0
// Figures: what came out, a line each: "name: value unit".
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace leat::scale {

// "12,345", "12.3", "0.00123": three digits that count below a thousand.
std::string number_text(double value);
std::string bytes_text(double bytes);      // "1.23 MiB"
std::string seconds_text(double seconds);  // "3.51 us", "2.5 h"

// Under its own title.
void begin_part(std::string_view title);
void print_figure(std::string_view name, std::string_view value);
void print_number(std::string_view name, double value, std::string_view unit = "");
void print_share(std::string_view name, double share);  // in per cent
void print_bytes(std::string_view name, double bytes, std::string_view unit = "");
void print_seconds(std::string_view name, double seconds, std::string_view unit = "");

[[noreturn]] void fail(const std::string& why);
inline void must(const Result<>& done) {
  if (!done) fail(done.error().to_string());
}
template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error().to_string());
  return *std::move(result);
}

// As malloc counts it; 0 under sanitizers.
uint64_t heap_bytes();

// CPU, not time: other work may be on the machine.
class Stopwatch {
 public:
  // Of all threads, in the kernel as well.
  double cpu_seconds() const { return cpu() - cpu_; }

 private:
  static double cpu() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto in_seconds = [](const timeval& time) {
      return double(time.tv_sec) + double(time.tv_usec) / 1e6;
    };
    return in_seconds(used.ru_utime) + in_seconds(used.ru_stime);
  }

  const double cpu_ = cpu();
};

}  // namespace leat::scale
