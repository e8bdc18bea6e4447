#include "launcher/plan/hang/stacks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/text/contains.h"
#include "common/text/join_words.h"
#include "common/text/split.h"
#include "launcher/plan/output/line_folder.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMaxFrames = 24;   // of one thread that a report shows
constexpr std::size_t kFrameBytes = 16;  // numbers and punctuation of one frame
constexpr std::size_t kMaxGroups = 8;    // of equal stacks that a report shows
constexpr std::size_t kMaxLibrary = 2;   // frames of libraries in a row that a report shows

/// Whether the text begins with one of the words, which commas separate.
bool begins_with_any(std::string_view text, std::string_view words) {
  return std::ranges::any_of(split(words, ','),
                             [text](std::string_view word) { return text.starts_with(word); });
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_python(const Frame& frame) {
  // C++ stacks come from symbols, which have no lines. Python always prints a line, and "<frozen
  // ...>" where there is no file.
  return frame.line > 0 || frame.file.starts_with('<');
}

/// The position after "lib/python3.11/", where the standard library or site-packages begin.
std::size_t after_standard_library(std::string_view file) {
  constexpr std::string_view kLibrary = "/python3";
  const std::size_t at = file.find(kLibrary);
  if (at == std::string_view::npos) return std::string_view::npos;
  const std::size_t end = file.find('/', at + kLibrary.size());
  // "3.13t" is a build without the global interpreter lock.
  const bool is_version = end != std::string_view::npos &&
                          file.substr(at + kLibrary.size(), end - at - kLibrary.size())
                                  .find_first_not_of(".0123456789t") == std::string_view::npos;
  return is_version ? end + 1 : std::string_view::npos;
}

/// "torch/autograd/graph.py", "threading.py"; a user's own file keeps its path.
std::string_view short_file(std::string_view file) {
  for (const std::string_view folder : {"site-packages/", "dist-packages/"}) {
    const std::size_t at = file.rfind(folder);
    if (at != std::string_view::npos) return file.substr(at + folder.size());
  }
  const std::size_t library = after_standard_library(file);
  return library == std::string_view::npos ? file : file.substr(library);
}

bool is_standard_python(const Frame& frame) {
  return is_python(frame) && short_file(frame.file).size() != frame.file.size() &&
         !contains(frame.file, "-packages/");
}

bool is_library_python(const Frame& frame) {
  return frame.file.empty() || frame.file.starts_with('<') ||
         short_file(frame.file).size() != frame.file.size();
}

/// Frames of libc, libstdc++, the importer and the like, which do not say what a thread does.
bool is_plumbing(const Frame& frame) {
  constexpr std::string_view kFiles =
      "libc.so,libc-,libstdc++,libpthread,ld-linux,libgcc_s,libm.so,linux-vdso,[vdso]";
  constexpr std::string_view kFunctions = "std::,__gnu_cxx::,_start,__libc_,void std::,decltype";
  if (is_python(frame)) return frame.file.starts_with("<frozen ");  // of an import
  return frame.function.empty() || begins_with_any(base_name(frame.file), kFiles) ||
         begins_with_any(frame.function, kFunctions);
}

bool is_library_cpp(const Frame& frame) {
  constexpr std::string_view kFunctions =
      "at::,c10::,c10d::,torch::,gloo::,caffe2::,tensorpipe::,"
      "ddp::worker::SharedSums::,ddp::worker::WatchedGloo::";
  constexpr std::string_view kFiles =
      "libtorch,libc10,libgomp,libiomp,libomp,libnccl,libcuda,libddp-shm";
  return is_plumbing(frame) || begins_with_any(frame.function, kFunctions) ||
         begins_with_any(base_name(frame.file), kFiles);
}

bool is_library(const Frame& frame) {
  return is_python(frame) ? is_library_python(frame) : is_library_cpp(frame);
}

/// The innermost frame that says what the thread does.
const Frame* innermost(const ThreadStack& thread) {
  const auto found = std::ranges::find_if_not(thread.frames, is_plumbing);
  return found == thread.frames.end() ? nullptr : &*found;
}

const Frame* innermost_of_user(const ThreadStack& thread) {
  const auto found = std::ranges::find_if_not(thread.frames, is_library);
  return found == thread.frames.end() ? innermost(thread) : &*found;
}

const ThreadStack* main_of(const Stacks& stacks) {
  const auto found = std::ranges::find_if(stacks.threads, &ThreadStack::is_main);
  return found == stacks.threads.end() || found->frames.empty() ? nullptr : &*found;
}

/// `file`: as it is to be shown.
std::string to_text(const Frame& frame, std::string_view file) {
  if (frame.line > 0)
    return std::string(file) + ":" + std::to_string(frame.line) + " in " + frame.function;
  const std::string function = frame.function.empty() ? "??" : frame.function;
  return file.empty() ? function : function + " (" + std::string(file) + ")";
}

std::string to_text(const Frame& frame) {
  return to_text(frame, is_python(frame) ? short_file(frame.file) : base_name(frame.file));
}

std::size_t bytes_of(const ThreadStack& thread) {
  std::size_t bytes = thread.name.size() + kFrameBytes;
  for (const Frame& frame : thread.frames)
    bytes += frame.function.size() + frame.file.size() + kFrameBytes;
  return bytes;
}

// --- Which ranks wait in a collective.

enum class Place {
  elsewhere,
  implied,  // backward and DDP: nobody wrote the collective down
  called,   // a collective that a program calls by its name
};

Place place_of(const ThreadStack& thread) {
  constexpr std::string_view kImpliedCpp = "torch::autograd::,c10d::Reducer";
  constexpr std::string_view kCalledCpp =
      "c10d::,c10::ivalue::Future::,gloo::,nccl,ddp::worker::Group,"
      "ddp::worker::SharedSums::";
  // Skip locks, queues and sockets of the standard library: any code may wait in them.
  const auto frame = std::ranges::find_if_not(
      thread.frames, [](const Frame& one) { return is_plumbing(one) || is_standard_python(one); });
  if (frame == thread.frames.end()) return Place::elsewhere;
  if (is_python(*frame)) {
    if (contains(frame->file, "torch/distributed/")) return Place::called;
    const bool is_implied =
        contains(frame->file, "torch/autograd/") || contains(frame->file, "torch/nn/parallel/");
    return is_implied ? Place::implied : Place::elsewhere;
  }
  if (begins_with_any(frame->function, kImpliedCpp)) return Place::implied;
  return begins_with_any(frame->function, kCalledCpp) ? Place::called : Place::elsewhere;
}

/// A key that is equal for two ranks in the same place.
std::pair<std::string, std::string> name_of(const ThreadStack& thread) {
  const Frame* const inner = innermost(thread);
  const Frame* const user = innermost_of_user(thread);
  return {inner == nullptr ? "" : inner->file + "\n" + inner->function,
          user == nullptr ? "" : to_text(*user)};
}

/// The key that more than half of the ranks have.
template <typename Key>
std::optional<Key> majority(const std::map<int, Key>& keys) {
  std::map<Key, std::size_t> counts;
  for (const auto& [rank, key] : keys)
    ++counts[key];
  for (const auto& [key, count] : counts)
    if (2 * count > keys.size()) return key;
  return std::nullopt;
}

}  // namespace

bool is_idle(const ThreadStack& thread) {
  // Python: files in which a thread of the standard library or of a package waits for work.
  constexpr std::string_view kFiles =
      "threading.py,queue.py,selectors.py,concurrent/futures/thread.py,"
      "multiprocessing/connection.py,multiprocessing/queues.py,socketserver.py,"
      "tqdm/_monitor.py,torch/_inductor/compile_worker/subproc_pool.py";
  // C++: the loops of threads of LibTorch, of gloo, and of ddp-worker's groups.
  constexpr std::string_view kFunctions =
      "torch::autograd::ReadyQueue::,torch::autograd::Engine::thread_init,"
      "torch::autograd::Engine::thread_main,c10::ThreadPool::,at::internal::,"
      "gloo::transport::,c10d::ProcessGroupGloo::runLoop,c10d::ProcessGroupNCCL::,"
      "c10d::TCPStore,c10d::detail::,uv_,uv__,caffe2::,"
      "ddp::worker::PeerWatch::,ddp::worker::SharedSums::serve";
  constexpr std::string_view kPools = "libgomp,libiomp,libomp";
  if (thread.is_main) return false;
  const Frame* const frame = innermost(thread);
  if (frame == nullptr) return true;
  if (!is_python(*frame)) {
    return begins_with_any(frame->function, kFunctions) ||
           begins_with_any(base_name(frame->file), kPools);
  }
  const bool has_user = !std::ranges::all_of(thread.frames, is_library);
  const std::string_view file = short_file(frame->file);
  return !has_user && std::ranges::count(split(kFiles, ','), file) > 0;
}

Stacks shortened(Stacks stacks, std::size_t most) {
  stacks.idle += static_cast<int>(std::erase_if(stacks.threads, is_idle));
  std::ranges::stable_partition(stacks.threads, &ThreadStack::is_main);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stacks.threads.size(); ++i) {
    ThreadStack& thread = stacks.threads[i];
    // Drop outermost frames: they are alike in all threads. The innermost say where a thread
    // stands.
    while (bytes + bytes_of(thread) > most && !thread.frames.empty())
      thread.frames.pop_back();
    bytes += bytes_of(thread);
    if (thread.frames.empty()) {
      stacks.threads.resize(i);
      break;
    }
  }
  return stacks;
}

std::string where_it_stands(const Stacks& stacks) {
  const ThreadStack* const thread = main_of(stacks);
  const Frame* const frame = thread == nullptr ? nullptr : innermost_of_user(*thread);
  return frame == nullptr ? "" : to_text(*frame, base_name(frame->file));
}

std::vector<std::string> to_lines(const Stacks& stacks) {
  std::vector<std::string> lines;
  for (const ThreadStack& thread : stacks.threads) {
    const std::string name = thread.name.empty() ? "" : " " + thread.name;
    lines.push_back(thread.is_main ? "main thread" : "another thread" + name);
    std::size_t shown = 0;
    std::size_t left_out = 0;
    std::size_t in_a_row = 0;
    const auto say_left_out = [&] {
      if (left_out > 0) lines.push_back("  ... " + std::to_string(left_out) + " of libraries");
      left_out = 0;
    };
    for (const Frame& frame : thread.frames) {
      // A named libc function at the top says in what the thread waits.
      const bool is_first =
          &frame == &thread.frames.front() && !is_python(frame) && !frame.function.empty();
      if (is_plumbing(frame) && !is_first) continue;
      // LibTorch has many frames in a row; the innermost ones say which operation it is.
      in_a_row = !is_python(frame) && is_library(frame) ? in_a_row + 1 : 0;
      if (in_a_row > kMaxLibrary) {
        ++left_out;
        continue;
      }
      say_left_out();
      if (++shown > kMaxFrames) {
        lines.emplace_back("  ... and those that called it");
        break;
      }
      lines.push_back("  " + to_text(frame));
    }
    say_left_out();
    // Code generated at run time, such as kernels, has neither a name nor a known caller.
    if (shown == 0) lines.emplace_back("  in calls without names");
  }
  if (stacks.idle > 0) {
    lines.push_back(std::to_string(stacks.idle) +
                    (stacks.idle == 1 ? " idle thread is left out" : " idle threads are left out"));
  }
  return lines;
}

std::vector<StackGroup> group_equal(const StacksByRank& ranks) {
  std::vector<StackGroup> groups;
  for (const auto& [rank, stacks] : ranks) {
    const std::vector<ThreadStack>& threads = stacks.threads;
    const auto same = std::ranges::find_if(
        groups, [&threads](const StackGroup& group) { return group.stacks.threads == threads; });
    if (same == groups.end()) {
      groups.push_back({{rank}, stacks});
    } else {
      same->ranks.push_back(rank);
    }
  }
  return groups;
}

std::vector<std::string> describe_others(const StacksByRank& ranks, int root) {
  std::vector<std::string> lines;
  std::vector<int> left_out;
  std::size_t shown = 0;
  for (StackGroup& group : group_equal(ranks)) {
    const bool is_roots = std::erase(group.ranks, root) > 0;
    if (group.stacks.threads.empty() || group.ranks.empty()) continue;
    if (!is_roots && shown == kMaxGroups) {
      left_out.insert(left_out.end(), group.ranks.begin(), group.ranks.end());
      continue;
    }
    const std::string head = group.ranks.size() == 1 ? "rank " : "ranks ";
    const std::string who = head + join_ranges(group.ranks);
    lines.push_back(who + (is_roots ? ": as rank " + std::to_string(root) : ":"));
    if (is_roots) continue;
    ++shown;
    for (const std::string& line : to_lines(group.stacks))
      lines.push_back("  " + line);
  }
  std::ranges::sort(left_out);
  if (!left_out.empty()) lines.push_back("ranks " + join_ranges(left_out) + ": in other places");
  return lines;
}

std::optional<Culprit> find_culprit(const StacksByRank& ranks) {
  std::map<int, Place> places;
  std::map<int, std::pair<std::string, std::string>> names;
  for (const auto& [rank, stacks] : ranks) {
    const ThreadStack* const thread = main_of(stacks);
    if (thread == nullptr) continue;
    places[rank] = place_of(*thread);
    names[rank] = name_of(*thread);
  }
  if (places.size() < 2) return std::nullopt;
  const auto odd = [&](int rank, const std::string& others) {
    return Culprit{rank, "stands in " + where_it_stands(ranks.at(rank)) + ", " + others};
  };
  const auto outside = std::ranges::find_if(
      places, [](const auto& entry) { return entry.second == Place::elsewhere; });
  const bool is_any_inside = std::ranges::any_of(
      places, [](const auto& entry) { return entry.second != Place::elsewhere; });
  if (outside != places.end() && is_any_inside)
    return odd(outside->first, "while others wait in a collective");
  if (const auto most = majority(names)) {
    const auto other =
        std::ranges::find_if(names, [&](const auto& entry) { return entry.second != *most; });
    if (other == names.end()) return std::nullopt;
    const auto usual =
        std::ranges::find_if(names, [&](const auto& entry) { return entry.second == *most; });
    return odd(other->first, "most others in " + where_it_stands(ranks.at(usual->first)));
  }
  if (places.size() == 2 && is_any_inside) {
    const auto [first, second] = std::pair(*places.begin(), *std::next(places.begin()));
    if (first.second == second.second) return std::nullopt;
    const bool is_first = first.second == Place::implied;
    const int rank = is_first ? first.first : second.first;
    const int other = is_first ? second.first : first.first;
    return odd(
        rank,
        "while rank " + std::to_string(other) + " waits in " + where_it_stands(ranks.at(other)));
  }
  return std::nullopt;
}

Finding blame_outlier(Finding hang, const StacksByRank& ranks) {
  const std::optional<Culprit> odd = hang.is_guess ? find_culprit(ranks) : std::nullopt;
  if (!odd || odd->rank == hang.rank) return hang;
  hang.text = odd->why + "; rank " + std::to_string(hang.rank) + " " + hang.text;
  hang.rank = odd->rank;
  return hang;
}

}  // namespace ddp::launcher
