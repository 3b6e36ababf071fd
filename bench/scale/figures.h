// SPDX-License-Identifier: Apache-2.0
// Figures: the results, a line each: "name: value unit".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "clients/own_cpu.h"

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
  double cpu_seconds() const { return own_cpu_seconds() - cpu_; }

 private:
  const double cpu_ = own_cpu_seconds();
};

}  // namespace leat::scale
