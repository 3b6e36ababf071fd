// SPDX-License-Identifier: Apache-2.0
#include "scale/figures.h"

#include <fmt/format.h>
#include <malloc.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace leat::scale {
namespace {

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

std::string number_text(double value) {
  if (value == 0) return "0";
  if (value < 0) return "-" + number_text(-value);
  if (value >= 999.5 || value == std::floor(value)) return grouped(std::llround(value));
  const int before = static_cast<int>(std::floor(std::log10(value))) + 1;
  return fmt::format("{:.{}f}", value, std::max(0, 3 - before));
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{} {}", number_text(bytes), kUnits[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-6) return number_text(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return number_text(seconds * 1e6) + " us";
  if (seconds < 1) return number_text(seconds * 1e3) + " ms";
  if (seconds < 120) return number_text(seconds) + " s";
  if (seconds < 7200) return number_text(seconds / 60) + " min";
  if (seconds < 172'800) return number_text(seconds / 3600) + " h";
  return number_text(seconds / 86'400) + " days";
}

void begin_part(std::string_view title) {
  fmt::print("\n{}\n", title);
  std::fflush(stdout);
}

void print_figure(std::string_view name, std::string_view value) {
  fmt::print("  {}: {}\n", name, value);
  std::fflush(stdout);
}

void print_number(std::string_view name, double value, std::string_view unit) {
  print_figure(name, number_text(value) + (unit.empty() ? "" : " ") + std::string(unit));
}
void print_share(std::string_view name, double share) {
  print_figure(name, number_text(share * 100) + " %");
}
void print_bytes(std::string_view name, double bytes, std::string_view unit) {
  print_figure(name, bytes_text(bytes) + std::string(unit));
}
void print_seconds(std::string_view name, double seconds, std::string_view unit) {
  print_figure(name, seconds_text(seconds) + (unit.empty() ? "" : " ") + std::string(unit));
}

void fail(const std::string& why) {
  std::fprintf(stderr, "leat_scale: %s\n", why.c_str());
  std::exit(1);
}

uint64_t heap_bytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

}  // namespace leat::scale
