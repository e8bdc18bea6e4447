#include "worker/train/failure/user_frames.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "common/text/shell_quotes.h"
#include "common/text/split.h"
#include "worker/train/failure/throw_trace.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFrames = 10;
constexpr std::chrono::seconds kLookUpFor{5};  // for all frames; the rest is shown as offsets

struct Frame {
  std::string file;
  std::uintptr_t offset = 0;  // of the call in the file
};

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [text](auto word) { return text.starts_with(word); });
}

bool is_of_a_library(const std::string& file) {
  return begins_with_any(std::filesystem::path(file).filename().string(),
                         {"libtorch",
                          "libc10",
                          "libstdc++",
                          "libgomp",
                          "libc.so",
                          "libm.so",
                          "ld-",
                          "libpthread",
                          "libasan",
                          "libubsan",
                          "libtsan"});
}

/// The position of the qualified name in a demangled function: after the return type, which
/// templates have, and before the arguments.
struct NamePlace {
  std::size_t begin = 0;
  std::size_t end = 0;
};

NamePlace find_name(std::string_view function) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  NamePlace found;
  int depth = 0;
  std::size_t i = 0;
  for (; i < function.size(); ++i) {
    if (function.substr(i).starts_with(kUnnamed)) i += kUnnamed.size();
    const char letter = i < function.size() ? function[i] : '(';
    if (letter == '(' && depth == 0 && i != found.begin) break;
    if (letter == '<') ++depth;
    if (letter == '>') --depth;
    if (letter == ' ' && depth == 0) found.begin = i + 1;
  }
  found.end = std::min(i, function.size());
  return found;
}

std::string_view name_of(std::string_view function) {
  return function.substr(find_name(function).begin);
}

/// Templates of libraries are compiled into the program that uses them.
bool is_of_a_library_by_name(std::string_view function) {
  return begins_with_any(name_of(function),
                         {"std::", "at::", "c10::", "torch::", "__gnu_cxx::", "_start", "__libc_"});
}

/// "frame #2: NAME + 0x5d (0x7f0123456789 in /usr/bin/tiny)": the return address, or nullptr.
const void* read_address(std::string_view line) {
  const std::size_t begin = line.rfind(" (0x");
  if (!line.starts_with("frame #") || begin == std::string_view::npos) return nullptr;
  std::uintptr_t address = 0;
  const std::string_view number = line.substr(begin + 4);
  (void)std::from_chars(number.data(), number.data() + number.size(), address, 16);
  return reinterpret_cast<const void*>(address);
}

std::optional<Frame> find_frame(const void* address) {
  // The return address is after the call, perhaps on another line.
  Dl_info info{};
  link_map* map = nullptr;
  void* const extra = static_cast<void*>(&map);
  const auto call = reinterpret_cast<std::uintptr_t>(address) - 1;
  if (address == nullptr || ::dladdr1(reinterpret_cast<const void*>(call),
                                      &info,
                                      static_cast<void**>(extra),
                                      RTLD_DL_LINKMAP) == 0)
    return {};
  // The dynamic loader may only know the name by which the program was called.
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  std::error_code ignored;
  const std::string file =
      is_program ? std::filesystem::read_symlink("/proc/self/exe", ignored).string() : map->l_name;
  return Frame{file, call - map->l_addr};
}

/// Two lines (function, source line) for the offset, and for each function into which it is
/// inlined.
std::vector<std::string> look_up(const Frame& frame, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(deadline - Clock::now());
  if (left.count() < 1) return {};
  const std::string command =
      fmt::format("DEBUGINFOD_URLS= exec timeout {} addr2line -f -C -i -e {} {:#x} 2>/dev/null",
                  left.count(),
                  in_quotes(frame.file),
                  frame.offset);
  const auto close = [](FILE* file) { ::pclose(file); };
  const std::unique_ptr<FILE, decltype(close)> pipe(::popen(command.c_str(), "re"), close);
  std::string text;
  std::array<char, 4096> buffer{};
  while (pipe && std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr)
    text += buffer.data();
  const std::vector<std::string_view> lines = split_lines(text);
  return {lines.begin(), lines.end()};
}

/// "tiny.cpp:12" of "tiny.cpp:12 (discriminator 3)"; "": not known.
std::string place_of(const std::string& line) {
  const std::string place = line.substr(0, line.find(" (discriminator"));
  if (place.starts_with("??") || place.ends_with(":?") || place.ends_with(":0")) return "";
  return std::filesystem::path(place).lexically_normal().string();
}

/// Drops the argument types of a long name, and the compiler's suffix for a cold part of a
/// function, which is where a throw usually is.
std::string short_name(std::string_view function) {
  constexpr std::size_t kLong = 100;
  function = function.substr(0, function.find(" [clone ."));
  if (function.size() <= kLong) return std::string(function);
  return std::string(function.substr(0, find_name(function).end)) + "(...)";
}

}  // namespace

std::vector<const void*> read_backtrace(std::string_view backtrace) {
  std::vector<const void*> stack;
  for (const std::string_view line : split_lines(backtrace))
    stack.push_back(read_address(line));
  return stack;
}

std::vector<const void*> stack_of(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return throw_trace(dynamic_cast<const void*>(&error), typeid(error));
  return read_backtrace(torch->backtrace() == nullptr ? "" : torch->backtrace()->get());
}

std::vector<std::string> user_frames(const std::vector<const void*>& stack) {
  std::vector<std::string> found;
  const Clock::time_point deadline = Clock::now() + kLookUpFor;
  for (const void* const address : stack) {
    if (found.size() >= kFrames) break;
    const std::optional<Frame> frame = find_frame(address);
    if (!frame || is_of_a_library(frame->file)) continue;
    const std::vector<std::string> lines = look_up(*frame, deadline);
    if (lines.size() < 2 || lines[0].starts_with("??"))
      found.push_back(fmt::format("{} +{:#x}", frame->file, frame->offset));
    for (std::size_t i = 0; i + 1 < lines.size() && found.size() < kFrames; i += 2) {
      if (lines[i].starts_with("??") || is_of_a_library_by_name(lines[i])) continue;
      const std::string place = place_of(lines[i + 1]);
      found.push_back(short_name(lines[i]) + (place.empty() ? "" : " at " + place));
    }
  }
  return found;
}

}  // namespace ddp::worker
