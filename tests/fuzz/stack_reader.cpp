// Any bytes of a worker that is asked for its stacks: what is kept of them is bounded, travels, and
// can be shown. Names stay mangled here: the demangler is libstdc++'s own.
#include "launcher/plan/hang/stack_reader.h"

#include <string>

#include "launcher/plan/output/line_splitter.h"
#include "tests/fuzz/fuzz.h"

namespace {

using ddp::fuzz::require;
using namespace ddp::launcher;

std::size_t bytes_of(const Stacks& stacks) {
  std::size_t bytes = 0;
  for (const ThreadStack& thread : stacks.threads) {
    bytes += thread.name.size();
    for (const Frame& frame : thread.frames)
      bytes += frame.function.size() + frame.file.size();
  }
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  StackReader reader;
  const auto take = [&](std::string_view line) {
    if (line.find("_Z") == std::string_view::npos) reader.take(line);
  };
  LineSplitter splitter;
  splitter.feed(ddp::fuzz::to_string(data, size), take);
  splitter.finish(take);
  const Stacks all = reader.result();
  require(all.threads.size() <= StackReader::kMaxThreads, "threads are bounded");
  int mains = 0;
  for (const ThreadStack& thread : all.threads) {
    mains += thread.is_main ? 1 : 0;
    require(thread.frames.size() <= StackReader::kMaxFrames, "frames are bounded");
  }
  require(mains <= 1, "at most one thread is the main one");
  constexpr std::size_t kMost = 500;
  const Stacks stacks = shortened(all, kMost);
  require(bytes_of(stacks) <= kMost, "what travels is bounded");
  require(shortened(stacks, kMost) == stacks, "short stacks stay as they are");
  const StacksByRank ranks{{0, stacks}, {1, all}};
  require(to_lines(stacks).size() <= 3 * kMost, "lines are bounded");
  (void)describe_others(ranks, 0);
  (void)find_culprit(ranks);
  return 0;
}
