#include "launcher/plan/start/log_spec.h"

#include <algorithm>

#include "common/text/split.h"
#include "launcher/plan/rank_name.h"

namespace ddp::launcher {
namespace {

constexpr unsigned kBoth = 3;

unsigned bit_of(WorkerStream stream) {
  return stream == WorkerStream::output ? 1U : 2U;
}

std::optional<unsigned> read_streams(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return {};
  return static_cast<unsigned>(text[0] - '0');
}

std::vector<std::string> split_texts(const std::string& text) {
  std::vector<std::string> texts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      texts.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      texts.back() += text[i++];  // ",," is a comma
    } else {
      texts.emplace_back();
    }
  }
  std::erase(texts, "");  // an empty text is in every line
  return texts;
}

class LogKeys {
 public:
  LogKeys(const JobValues& job, int nproc, std::vector<std::string>& problems)
      : job_(job), nproc_(nproc), problems_(problems) {}

  LogSpec read() {
    LogSpec spec;
    spec.directory = job_.maybe_text("launch.log_dir").value_or("");
    spec.redirects = streams("launch.redirects");
    spec.tee = streams("launch.tee");
    spec.shown = ranks("launch.local_ranks_filter");
    spec.filters = {split_texts(job_.maybe_text("launch.duplicate_stdout_filters").value_or("")),
                    split_texts(job_.maybe_text("launch.duplicate_stderr_filters").value_or(""))};
    spec.prefix = job_.maybe_text("launch.prefix");
    spec.color = job_.text("launch.color");
    spec.fold = job_.flag("launch.fold");
    spec.progress = parse_progress(job_.text("launch.progress"));
    spec.console_limit = job_.maybe_integer("launch.console_limit");
    spec.warnings = std::move(warnings_);
    return spec;
  }

 private:
  void complain(const std::string& key, const std::string& what) {
    problems_.push_back(origin(key) + ": " + what);
  }

  [[nodiscard]] std::string origin(const std::string& key) const {
    const std::string& text = job_.setting(key).origin;
    return text == "default" ? key : text;
  }

  /// Ignores ranks that this node does not have, as torchrun does: nodes may have different
  /// numbers.
  RankRange within(const std::string& key, const std::string& text, RankRange ranks) {
    if (ranks.last < nproc_) return ranks;
    warnings_.push_back(origin(key) + ": " + text + ": there is no local rank " +
                        std::to_string(ranks.last) + ", this node has 0 to " +
                        std::to_string(nproc_ - 1));
    ranks.last = nproc_ - 1;
    ranks.first = std::min(ranks.first, nproc_);
    return ranks;
  }

  std::vector<unsigned> streams(const std::string& key) {
    const std::string& text = job_.text(key);
    if (const auto all = read_streams(text))
      return std::vector<unsigned>(static_cast<std::size_t>(nproc_), *all);
    std::vector<unsigned> by_rank(static_cast<std::size_t>(nproc_), 0U);
    for (const std::string_view part : split(text, ',')) {  // an extra comma is an error
      const std::size_t colon = std::min(part.find(':'), part.size());
      const auto ranks = read_rank_range(part.substr(0, colon));
      const auto value = read_streams(part.substr(std::min(colon + 1, part.size())));
      if (!ranks || !value) {
        complain(key,
                 "\"" + text +
                     "\": write 0, 1 (stdout), 2 (stderr) or 3 (both), or RANK:VALUE,RANK:VALUE "
                     "with local ranks, as 0-3:1,10:3.");
        return by_rank;
      }
      const RankRange ours = within(key, text, *ranks);
      std::fill(by_rank.begin() + ours.first, by_rank.begin() + ours.last + 1, *value);
    }
    return by_rank;
  }

  std::vector<bool> ranks(const std::string& key) {
    const std::optional<std::string> text = job_.maybe_text(key);
    std::vector<bool> chosen(static_cast<std::size_t>(nproc_), !text);
    if (!text) return chosen;
    std::string plain = *text;
    std::erase(plain, ' ');  // torchrun allows blanks here
    for (const std::string_view part : split(plain, ',')) {
      const auto ranks = read_rank_range(part);
      if (!ranks) {
        complain(key, "\"" + *text + "\": write local ranks, as 0,2-3.");
        return chosen;
      }
      const RankRange ours = within(key, *text, *ranks);
      std::fill(chosen.begin() + ours.first, chosen.begin() + ours.last + 1, true);
    }
    return chosen;
  }

  const JobValues& job_;
  const int nproc_;
  std::vector<std::string>& problems_;
  std::vector<std::string> warnings_;
};

bool has_any(const std::vector<unsigned>& streams) {
  return std::ranges::any_of(streams, [](unsigned bits) { return bits != 0; });
}

}  // namespace

LogSpec make_log_spec(const JobValues& job, int nproc, std::vector<std::string>& problems) {
  return LogKeys(job, nproc, problems).read();
}

bool refuses_files(const LogSpec& spec) {
  return spec.directory == "/dev/null";
}

bool wants_log_dir(const LogSpec& spec, bool has_run_dir) {
  if (refuses_files(spec)) return false;
  if (!spec.directory.empty()) return true;
  return !has_run_dir && (has_any(spec.redirects) || has_any(spec.tee));
}

StreamPlan plan_stream(const LogSpec& spec, bool has_run_dir, int local_rank, WorkerStream stream) {
  const auto rank = static_cast<std::size_t>(local_rank);
  const unsigned tee = spec.tee.at(rank) & bit_of(stream);
  const unsigned redirect = spec.redirects.at(rank) & bit_of(stream);
  const bool in_run_dir = has_run_dir && spec.directory.empty();
  StreamPlan plan;
  plan.is_logged = !refuses_files(spec) && (in_run_dir || ((tee | redirect) & kBoth) != 0);
  plan.is_teed = tee != 0;
  // Without files nothing is redirected; torchrun shows such streams, too.
  const bool is_redirected = redirect != 0 && tee == 0 && !refuses_files(spec);
  plan.is_shown = spec.shown.at(rank) && !is_redirected;
  plan.has_filtered_file =
      plan.is_logged && plan.is_shown && !spec.filters[static_cast<std::size_t>(stream)].empty();
  return plan;
}

bool is_colored(const LogSpec& spec, bool is_terminal, const Environment& environment) {
  if (spec.color != "auto") return spec.color == "always";
  return is_terminal && find_variable(environment, "NO_COLOR").value_or("").empty() &&
         find_variable(environment, "TERM").value_or("dumb") != "dumb";
}

}  // namespace ddp::launcher
