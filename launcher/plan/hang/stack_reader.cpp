#include "launcher/plan/hang/stack_reader.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kFirst = "(most recent call first):";

/// Takes `head` off the front of `text`.
bool eat(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return true;
}

std::optional<long> eat_number(std::string_view& text) {
  return text.starts_with('-') ? std::nullopt : take_number<long>(text);
}

std::string bounded(std::string_view text) {
  return std::string(text.substr(0, StackReader::kMaxText));
}

/// The text between the first `open` and the last `close`.
std::string_view between(std::string_view text, char open, char close) {
  const std::size_t begin = text.find(open);
  const std::size_t end = text.rfind(close);
  if (begin == std::string_view::npos || end == std::string_view::npos || end <= begin) return "";
  return text.substr(begin + 1, end - begin - 1);
}

/// `  File "train.py", line 21 in step`
std::optional<Frame> read_python_frame(std::string_view line) {
  constexpr std::string_view kLine = "\", line ";
  if (!eat(line, "  File \"")) return std::nullopt;
  const std::size_t end = line.rfind(kLine);
  if (end == std::string_view::npos) return std::nullopt;
  Frame frame;
  frame.file = bounded(line.substr(0, end));
  line.remove_prefix(end + kLine.size());
  frame.line = static_cast<int>(eat_number(line).value_or(0));  // ??: not known
  eat(line, "??");
  if (!eat(line, " in ")) return std::nullopt;
  frame.function = bounded(line);
  return frame;
}

/// `    step (train.py:21)`
std::optional<Frame> read_spy_frame(std::string_view line) {
  if (!eat(line, "    ")) return std::nullopt;
  const std::size_t open = line.rfind(" (");
  if (open == std::string_view::npos || !line.ends_with(')')) return std::nullopt;
  Frame frame;
  frame.function = bounded(line.substr(0, open));
  std::string_view location = line.substr(open + 2, line.size() - open - 3);
  const std::size_t colon = location.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view number = location.substr(colon + 1);
    frame.line = static_cast<int>(eat_number(number).value_or(0));
    location = location.substr(0, colon);
  }
  frame.file = bounded(location);
  return frame;
}

/// `./train(_ZN3ddp4stepEv+0x12)[0x55d0]`, as backtrace_symbols_fd(3) writes it.
std::optional<Frame> read_cpp_frame(std::string_view line) {
  const std::size_t address = line.rfind("[0x");
  if (address == std::string_view::npos || !line.ends_with(']')) return std::nullopt;
  line = line.substr(0, address);
  Frame frame;
  const std::size_t open = line.rfind('(');
  frame.file = bounded(line.substr(0, open));
  if (open == std::string_view::npos) return frame;
  const std::string_view location = line.substr(open + 1);
  frame.function = bounded(readable_function(location.substr(0, location.rfind('+'))));
  return frame;
}

/// Whether the outermost frame is a module: then it is the script's first thread. faulthandler's
/// "Current thread" may be another one, as a process that was stopped may get the signal there.
bool has_module_at_bottom(const ThreadStack& thread) {
  if (thread.frames.empty()) return false;
  const std::string& function = thread.frames.back().function;
  return function == "<module>" || function == "_run_module_as_main";
}

/// Whether the script only waits for a process that it has started.
bool is_wrapper(const ThreadStack& thread) {
  return !thread.frames.empty() && thread.frames.front().file.ends_with("/subprocess.py");
}

/// The position after the bracket that closes the one at `text[at]`.
std::size_t end_of_brackets(std::string_view text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    // The ">" of an arrow closes no bracket.
    const bool closes = c == ')' || c == '}' || c == ']' || (c == '>' && text[at - 1] != '-');
    if (closes && --depth == 0) return at + 1;
  }
  return at;
}

}  // namespace

bool StackReader::take(std::string_view line) {
  return take_header(line) || take_frame(line);
}

bool StackReader::take_header(std::string_view line) {
  if (line.starts_with("Fatal Python error: ")) {
    begin_process(Format::python);
    return true;
  }
  if (line.ends_with(kFirst)) {
    const bool is_current = line.starts_with("Current thread 0x");
    if (is_current || line.starts_with("Thread 0x") || line.starts_with("Stack ")) {
      if (format_ != Format::python) begin_process(Format::python);
      begin_thread(Format::python, between(line, '[', ']'), is_current);
      return true;
    }
    skips_ = line.starts_with("Current thread's C stack trace");  // of Python 3.14
    return skips_;
  }
  std::string_view rest = line;
  if (eat(rest, "stack of thread ")) {
    const std::optional<long> thread = eat_number(rest);
    const std::size_t of = rest.rfind(" of process ");
    if (!thread || of == std::string_view::npos) return false;
    const std::string_view name = between(rest.substr(0, of), '(', ')');
    rest.remove_prefix(of + std::string_view(" of process ").size());
    const std::optional<long> process = eat_number(rest);
    if (!process || rest != ":") return false;
    const bool is_main = *thread == *process;
    if (*process != pid_ || format_ != Format::cpp) begin_process(Format::cpp);
    pid_ = *process;
    begin_thread(Format::cpp, is_main ? "" : name, is_main);
    return true;
  }
  if (format_ == Format::cpp && line == "end of stacks") {
    format_ = Format::none;
    is_whole_ = true;
    return true;
  }
  if (format_ == Format::python && line.starts_with("Extension modules: ")) {
    format_ = Format::none;
    return true;
  }
  rest = line;
  if (eat(rest, "Process ") && eat_number(rest) && rest.starts_with(": ")) {
    begin_process(Format::spy);
    return true;
  }
  if (format_ != Format::spy) return false;
  if (line.starts_with("Python v")) return true;
  if (!line.starts_with("Thread ")) return false;
  const std::string_view name = between(line, '"', '"');
  const bool is_main = name == "MainThread";
  begin_thread(Format::spy, is_main ? "" : name, is_main);
  return true;
}

bool StackReader::take_frame(std::string_view line) {
  if (format_ == Format::none) return false;
  if (line.empty()) return format_ != Format::cpp;
  std::optional<Frame> frame;
  if (format_ == Format::cpp) frame = read_cpp_frame(line);
  if (format_ == Format::spy) frame = read_spy_frame(line);
  if (format_ == Format::python) {
    if (line == "  ..." || line == "  <no Python frame>" || line == "...") return true;
    if (skips_ && line.starts_with("  ")) return true;
    frame = read_python_frame(line);
  }
  if (!frame) return false;
  if (threads_.empty() || process_of_.back() != processes_) return true;
  std::vector<Frame>& frames = threads_.back().frames;
  if (frames.size() < kMaxFrames) frames.push_back(std::move(*frame));
  return true;
}

void StackReader::begin_process(Format format) {
  ++processes_;
  format_ = format;
  skips_ = false;
}

void StackReader::begin_thread(Format format, std::string_view name, bool is_main) {
  format_ = format;
  skips_ = false;
  if (threads_.size() == kMaxThreads) {
    // Drop the newest, not the new one: Python prints its main thread last.
    threads_.pop_back();
    process_of_.pop_back();
  }
  threads_.push_back({bounded(name), is_main, {}});
  process_of_.push_back(processes_);
}

Stacks StackReader::result() const {
  Stacks stacks;
  stacks.threads = threads_;
  std::optional<std::size_t> main;
  for (std::size_t begin = 0, end = 0; begin < threads_.size(); begin = end) {
    while (end < threads_.size() && process_of_[end] == process_of_[begin])
      ++end;
    const std::size_t candidate = find_main(begin, end);
    if (candidate < end && (!main || is_wrapper(threads_[*main]))) main = candidate;
  }
  for (std::size_t i = 0; i < threads_.size(); ++i)
    stacks.threads[i].is_main = i == main;
  return stacks;
}

/// The index of the main thread in [begin, end), the threads of one process. `end`: not known.
std::size_t StackReader::find_main(std::size_t begin, std::size_t end) const {
  const auto find = [&](auto is_main) {
    std::size_t at = begin;
    while (at < end && !is_main(threads_[at]))
      ++at;
    return at;
  };
  const std::size_t bottom = find(has_module_at_bottom);
  if (bottom < end || end - begin == 1) return std::min(bottom, end - 1);
  return find([](const ThreadStack& thread) { return thread.is_main; });
}

std::string readable_function(std::string_view symbol) {
  constexpr std::size_t kLongest = 2048;  // demangled text may be far longer, as names repeat
  if (!symbol.starts_with("_Z") || symbol.size() > kLongest) return std::string(symbol);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || !demangled) return std::string(symbol);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  constexpr std::string_view kOperator = "operator";
  const std::string_view text = demangled.get();
  std::string name;
  std::size_t word = 0;  // where the name begins, after a return type
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(kAnonymous)) {
      at += kAnonymous.size();
    } else if (rest.starts_with(kOperator) && (name.empty() || name.back() == ':' || at == 0)) {
      std::size_t end = at + kOperator.size();
      if (text.substr(end).starts_with("()")) end += 2;
      while (end < text.size() && text[end] != '(')
        ++end;
      name += text.substr(at, end - at);
      at = end;
    } else if (rest.starts_with("{lambda")) {
      name += "{lambda}";
      at = end_of_brackets(text, at);
    } else if (text[at] == '<') {
      at = end_of_brackets(text, at);
    } else if (text[at] == '(') {
      at = end_of_brackets(text, at);
      // " const" and "[clone .cold]" are not part of the name, but a local name may follow after
      // "::".
      const std::size_t next = text.find("::", at);
      if (next == std::string_view::npos) break;
      at = next;
    } else {
      if (text[at] == ' ') word = name.size() + 1;
      name += text[at++];
    }
  }
  return name.substr(std::min(word, name.size()));
}

}  // namespace ddp::launcher
