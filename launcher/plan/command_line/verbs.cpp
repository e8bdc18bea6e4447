#include "launcher/plan/command_line/verbs.h"

#include <algorithm>
#include <array>

#include "common/error.h"
#include "common/text/spelling.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kWhichJob =
    "JOB is the beginning (4 characters or more) of a job's random id, the id that you gave it,\n"
    "the path or the name of its run directory, or the pid of its agent. It may be left out when\n"
    "one job runs. Only your jobs with an agent here are asked.\n";

constexpr std::array kStatusFlags{
    VerbFlag{"--watch", 'w', "show it again every second, until Ctrl-C or the job ends"},
    VerbFlag{"--json", '\0', "what the agents answer, as one JSON array (docs/runs.md)"}};
constexpr std::array kLogsFlags{
    VerbFlag{"--follow", 'f', "go on with what is printed from now on, until the job ends"}};
constexpr std::array kWarmFlags{VerbFlag{"--status", '\0', "list them, as without a flag"},
                                VerbFlag{"--stop", '\0', "end them; running jobs go on"}};
constexpr std::array kCompareFlags{
    VerbFlag{"--html", '\0', "write a page into the FILE, too", "FILE"}};

constexpr std::array kVerbs{
    Verb{"status",
         "status [JOB] [--watch|--json]",
         "look at running jobs",
         "Ranks, phases, steps and losses of running jobs; of all jobs without JOB.\n",
         {"status --watch", "all your jobs here, again every second"},
         kStatusFlags,
         1,
         true,
         true},
    Verb{"stop",
         "stop [JOB]",
         "stop a running job",
         "As a SIGTERM to its agent: ddp-worker saves a checkpoint first.\n",
         {"stop digits2", "the job whose run directory is runs/digits2"},
         {},
         1,
         true,
         true},
    Verb{"logs",
         "logs [JOB] [RANK] [-f]",
         "show the last lines of a running job",
         "The last lines of every rank, or of one.\n",
         {"logs digits 1 -f", "rank 1 of the job of runs/digits, and what it prints from now on"},
         kLogsFlags,
         2,
         true,
         true},
    Verb{
        "warm",
        "warm [--status|--stop]",
        "list or end the Python processes that --preload keeps for the next job",
        "Each has imported the modules of --preload, waits for another job with the same\n"
        "interpreter, script, directory and environment, and ends when none has come for the time\n"
        "of --preload-idle. There are two at most (docs/warm-start.md).\n",
        {"warm --stop", "end them, as after a data file that an import reads was changed"},
        kWarmFlags,
        0,
        false,
        true},
    Verb{"doctor",
         "doctor [FLAGS] [PROGRAM]",
         "look at the nodes of a job and the way between them",
         "One table of the nodes: versions, limits, /dev/shm, clocks, GPUs with their driver; what "
         "is\n"
         "wrong with them, and what to do. Starts no worker; ends with 1 where a job would fail. "
         "It\n"
         "takes the flags of a job: ddp-launch --help lists them. Type it on every node, or give\n"
         "--hosts.\n",
         {"doctor --hosts a,b", "look at the nodes a and b, by ssh"}},
    Verb{"compare",
         "compare RUN RUN... [--html FILE]",
         "a table of several runs, and a page",
         "RUN is a run directory.\n",
         {"compare runs/digits runs/digits2 --html table.html", "two runs, and a page of them"},
         kCompareFlags}};

const Verb& find_verb(std::string_view name) {
  return *std::find_if(
      kVerbs.begin(), kVerbs.end(), [&](const Verb& verb) { return verb.name == name; });
}

bool is_flag(const std::string& word, const VerbFlag& flag) {
  return word == flag.name || (flag.letter != '\0' && word == std::string("-") + flag.letter);
}

/// ", did you mean --watch?", or ".".
std::string suggest_flag(const Verb& verb, const std::string& word) {
  std::vector<std::string_view> names;
  for (const VerbFlag& flag : verb.flags)
    names.push_back(flag.name);
  const std::optional<std::string> near = did_you_mean(word, names);
  return near ? ", did you mean " + *near + "?" : ".";
}

void take_flag(VerbRequest& request, const VerbFlag& flag) {
  if (flag.name == "--watch") request.watch = true;
  if (flag.name == "--json") request.json = true;
  if (flag.name == "--follow") request.follow = true;
  if (flag.name == "--stop") request.stop = true;
}

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}

std::optional<VerbRequest> parse_verb(std::span<const std::string> arguments) {
  const auto known = std::find_if(kVerbs.begin(), kVerbs.end(), [&](const Verb& candidate) {
    return !arguments.empty() && candidate.has_own_flags && candidate.name == arguments[0];
  });
  if (known == kVerbs.end()) return std::nullopt;
  const Verb& verb = *known;
  VerbRequest request;
  request.verb = arguments[0];
  std::vector<std::string> words;
  std::vector<std::string> problems;
  const std::string type = ". Type ddp-launch " + std::string(verb.words) + ".";
  const std::string file = " A program of that name is started as ./" + request.verb + ".";
  for (const std::string& word : arguments.subspan(1)) {
    const auto flag = std::find_if(verb.flags.begin(), verb.flags.end(), [&](const VerbFlag& one) {
      return is_flag(word, one);
    });
    if (word == "--help" || word == "-h") {
      request.help = true;
    } else if (flag != verb.flags.end()) {
      take_flag(request, *flag);
    } else if (word.starts_with('-')) {
      problems.push_back(request.verb + ": " + word + " is not a flag of it" +
                         suggest_flag(verb, word) + type.substr(1) + file);
    } else if (word.empty()) {
      problems.push_back(request.verb + ": a word is empty" + type);
    } else {
      words.push_back(word);
    }
  }
  if (request.help) return request;
  if (words.size() > verb.most_words) {
    const std::string_view most = verb.most_words == 0   ? " takes no word, got "
                                  : verb.most_words == 1 ? " takes one job, got "
                                                         : " takes one job and one rank, got ";
    problems.push_back(request.verb + std::string(most) + std::to_string(words.size()) + " word" +
                       (words.size() == 1 ? "" : "s") + type + file);
  }
  if (request.watch && request.json)
    problems.push_back("status: --watch and --json do not go together. Leave one of them out.");
  if (!problems.empty()) throw UsageError(problems);
  if (!words.empty()) request.job = words[0];
  if (words.size() > 1) request.rank = words[1];
  return request;
}

std::string verb_help(std::string_view name) {
  const Verb& verb = find_verb(name);
  std::string text = "ddp-launch " + std::string(verb.words) + "\n\n" + std::string(verb.more);
  if (verb.asks_agents) text += std::string(kWhichJob);
  if (name == "logs")
    text +=
        "A single number is a RANK, unless a job is called so.\n"
        "Followed are the log files where the run has some; they lose nothing. Without them the\n"
        "last 20 lines of each stream are asked for twice a second: no line comes twice, those\n"
        "that were missed are counted, and those of the job's last half second may be missing.\n";
  text += "\nExample:\n  ddp-launch " + std::string(verb.example.words) + "\n      " +
          std::string(verb.example.help) + "\n";
  if (!verb.flags.empty()) text += "\n";
  for (const VerbFlag& flag : verb.flags) {
    std::string left = flag.letter != '\0' ? std::string("  -") + flag.letter + ", " : "      ";
    left += flag.name;
    left.resize(std::max<std::size_t>(left.size() + 2, 18), ' ');
    text += left + std::string(flag.help) + "\n";
  }
  return text;
}

}  // namespace ddp::launcher
