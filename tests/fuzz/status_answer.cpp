// Any bytes as an agent's answer to status or logs: nothing, or lines of plain text, as many as
// there are workers.
#include "launcher/plan/status/status_answer.h"

#include <algorithm>

#include "launcher/plan/output/console_text.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ddp::launcher;
using ddp::fuzz::require;

void check(const std::string& text, std::size_t lines) {
  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  require(count == lines, "no text makes a line of its own");
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    std::string again;
    append_clean(again, std::string_view(text).substr(start, end - start));
    require(again.find_first_of("\a\b\v\f\r") == std::string::npos, "only text is shown");
    start = end + 1;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = ddp::fuzz::to_string(data, size);
  const auto job = read_answer(bytes);
  const std::string line = plain_line(bytes, 64);
  require(line.find_first_of("\x1b\n\r\t\a") == std::string::npos, "a line is plain");
  require(line.size() <= 3 * 64 + 3, "a line is bounded");
  if (!job) return 0;
  check(describe(*job), 1 + job->workers.size());
  require(describe(*job).find('\x1b') == std::string::npos, "no colours in names");
  std::size_t lines = 0;
  for (const WorkerAnswer& worker : job->workers)
    lines += worker.output.tail.size() + worker.errors.tail.size();
  check(describe_lines(*job), lines);
  return 0;
}
