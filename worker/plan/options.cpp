#include "worker/plan/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <sstream>
#include <string_view>

#include "common/cli/shell_completion.h"
#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/unknown_flag.h"
#include "common/text/parse_whole.h"
#include "common/text/shell_quotes.h"
#include "common/text/spelling.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

struct VerbRule {
  std::string_view word;
  Verb verb;
  std::string_view usage;
  std::string_view what;
  std::size_t least = 0;  // files, the checkpoint among them
  std::size_t most = 0;
  std::string_view also{};  // another word for it
};

constexpr std::size_t kMany = 1'000'000;

constexpr VerbRule kVerbs[] = {
    {"eval",
     Verb::evaluate,
     "eval CKPT [JOB.yaml] [KEY=VALUE ...] [--json]",
     "evaluates it on the test set of the job, or of the one that its run keeps; val is the same",
     1,
     1,
     "val"},
    {"predict",
     Verb::predict,
     "predict CKPT IMAGE|FOLDER ... [--top K] [--json] [-o DIR] [--confidence C] [--iou I]",
     "names the class of each image; with a detector the objects in it, which -o draws",
     2,
     kMany},
    {"inspect",
     Verb::inspect,
     "inspect CKPT [OTHER] [--json]",
     "says what is in it, verified; or what differs; .safetensors and .pt files too",
     1,
     2},
    {"export",
     Verb::export_weights,
     "export CKPT -o FILE.safetensors|FILE.pt [--ema] [--script NET.pt|NET.pt2]",
     "writes the weights, for Python and others; with --script the whole model",
     1,
     1},
    {"preview",
     Verb::preview,
     "preview JOB.yaml [KEY=VALUE ...] [-o PNG]",
     "draws what the model is going to see"},
};

constexpr std::string_view kCheckpointWords =
    "CKPT is the directory of a run (its newest whole checkpoint) or of a checkpoint, or best or "
    "latest of a run: RUN/best.";

const VerbHelp kTraining{"JOB.yaml [KEY=VALUE ...]",
                         "Trains one rank of a job; alone (no launcher), it is rank 0 of 1."};
const VerbHelp kFetching{"fetch mnist DIR", "gets a published data set"};

/// Flags that only some verbs take, and the words of these verbs; "train": no word at all.
struct FlagRule {
  const char* flag;
  std::vector<std::string_view> verbs;
};

const FlagRule kFlags[] = {
    {"output", {"preview", "export", "predict"}},
    {"ema", {"export"}},
    {"script", {"export"}},
    {"json", {"inspect", "eval", "predict"}},
    {"top", {"predict"}},
    {"confidence", {"predict"}},
    {"iou", {"predict"}},
    {"check", {"train"}},
    {"completion", {"train"}},
    {"man", {"train"}},
    {"as-rank", {"train"}},
    {"progress", {"train"}},
    {"init-method", {"train", "eval"}},
    {"rank", {"train", "eval"}},
    {"world-size", {"train", "eval"}},
};

po::options_description visible_flags() {
  po::options_description flags("Flags");
  flags.add_options()("help,h", "show this text")(
      "version", "show the versions of this program and of LibTorch")(
      "completion", po::value<std::string>()->value_name("bash|zsh|fish"), kCompletionHelp)(
      "man", "print the manual page (roff)")(
      "check",
      "read the data and build the model on this machine, say what it takes; train nothing")(
      "trust-checkpoint",
      "also load checkpoints and weights that belong to another user (checkpoint.trust=true)")(
      "output,o",
      po::value<std::string>()->value_name("FILE"),
      "of preview, export and predict: where the result goes (preview: preview.png; predict with a "
      "detector: a directory for drawn images, labels/ in YOLO's form, and predictions.json in "
      "COCO's)")("ema", "of export: the moving average of the weights (optimizer.ema_decay)")(
      "script",
      po::value<std::string>()->value_name("NET.pt"),
      "of export: the job's model.script or model.export; -o gets it with these weights")(
      "json", "of inspect, eval and predict: for programs")(
      "top",
      po::value<int>()->value_name("K"),
      "of predict: the K likeliest classes of each image (1), or the K surest objects (300)")(
      "confidence",
      po::value<double>()->value_name("C"),
      "of predict with a detector: only objects with a score above C (0.25)")(
      "iou",
      po::value<double>()->value_name("I"),
      "of predict with a detector: of two boxes of a class whose IoU is above I the surer one "
      "(0.7)")("init-method",
               po::value<std::string>()->value_name("URL"),
               "without a launcher: env://, or tcp://HOST:PORT of rank 0")(
      "rank", po::value<std::string>()->value_name("R"), "this process's rank, from 0")(
      "world-size", po::value<std::string>()->value_name("N"), "how many processes there are")(
      "as-rank",
      po::value<std::string>()->value_name("R/N"),
      "alone, but with the data, seeds and rates of rank R of N; writes nothing: for a debugger")(
      "progress",
      po::value<std::string>()->value_name("auto|plain|off"),
      "without ddp-launch: the line that tells how the run goes (launch.progress)");
  return flags;
}

const VerbRule* find_verb(int argc, const char* const* argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  const auto* const found = std::ranges::find_if(kVerbs, [word](const VerbRule& rule) {
    return !word.empty() && (word == rule.word || word == rule.also);
  });
  return found == std::end(kVerbs) ? nullptr : found;
}

std::string usage_of(const VerbRule& rule) {
  return "ddp-worker " + std::string(rule.usage);
}

std::vector<std::string> misplaced_flags(const po::variables_map& given, const VerbRule* verb) {
  const std::string_view word = verb != nullptr ? verb->word : "train";
  std::vector<std::string> problems;
  for (const FlagRule& rule : kFlags) {
    if (given.count(rule.flag) == 0 || std::ranges::find(rule.verbs, word) != rule.verbs.end())
      continue;
    std::string list;
    for (const std::string_view one : rule.verbs)
      list += (list.empty() ? "" : ", ") + std::string(one == "train" ? "a training" : one);
    problems.push_back("--" + std::string(rule.flag) + " is a flag of " + list + "." +
                       (verb != nullptr ? " Usage: " + usage_of(*verb) + "." : " Try --help."));
  }
  return problems;
}

bool is_flag_of(const std::string& flag, std::string_view word) {
  const auto* const rule =
      std::ranges::find_if(kFlags, [&](const FlagRule& one) { return one.flag == flag; });
  return rule == std::end(kFlags) || std::ranges::find(rule->verbs, word) != rule->verbs.end();
}

po::options_description flags_of(std::string_view word) {
  const po::options_description all = visible_flags();
  po::options_description flags("Flags");
  for (const auto& flag : all.options())
    if (is_flag_of(flag->long_name(), word)) flags.add(flag);
  return flags;
}

std::vector<CompletionFlag> completion_flags_of(std::string_view word) {
  std::vector<CompletionFlag> completed;
  const po::options_description flags = flags_of(word);
  for (const auto& flag : flags.options()) {
    CompletionFlag one{.name = flag->long_name(), .help = flag->description()};
    const std::string letter =
        flag->canonical_display_name(po::command_line_style::allow_dash_for_short);
    if (letter.size() == 2 && letter[0] == '-') one.letter = letter[1];
    if (flag->semantic()->max_tokens() > 0) {
      one.value = CompletionFlag::Value::required;
      one.placeholder = flag->semantic()->name();
    }
    completed.push_back(std::move(one));
  }
  return completed;
}

/// The verb of another program, ddp-fetch; a test compares this with its help.
CompletionVerb completion_of_fetch() {
  using Value = CompletionFlag::Value;
  return {.names = {"fetch"},
          .flags = {{.name = "from",
                     .help = "take the files from a mirror",
                     .value = Value::required,
                     .placeholder = "URL"},
                    {.name = "stall-limit",
                     .help = "without a byte for so long, try again",
                     .value = Value::required,
                     .placeholder = "TIME"},
                    {.name = "min-rate",
                     .help = "fewer bytes a second are as good as none",
                     .value = Value::required,
                     .placeholder = "BYTES"},
                    {.name = "dry-run", .help = "print what goes where; get nothing"},
                    {.name = "help", .help = "show its help"}},
          .words = {"mnist",
                    "fashion-mnist",
                    "cifar10",
                    "cifar100",
                    "weights/resnet18",
                    "weights/resnet34",
                    "weights/resnet50",
                    "weights/vit_b_16",
                    "weights/convnext_tiny",
                    "weights/efficientnet_b0",
                    "weights/swin_t",
                    "weights/mobilenet_v3_small",
                    "weights/regnet_y_400mf"}};
}

std::optional<std::string> find_text(const po::variables_map& given, const char* name) {
  if (given.count(name) == 0) return {};
  return given[name].as<std::string>();
}

/// A number from 0 to 1; no value, and no problem, when the flag is not given.
std::optional<double> find_share(const po::variables_map& given,
                                 const char* name,
                                 std::vector<std::string>& problems) {
  if (given.count(name) == 0) return {};
  const double share = given[name].as<double>();
  if (!(share >= 0 && share <= 1)) {  // it may be NaN
    std::ostringstream text;
    text << "--" << name << " " << share << ": not a number from 0 to 1.";
    problems.push_back(text.str());
  }
  return share;
}

/// Errors: UsageError.
AsRank parse_as_rank(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto rank = parse_whole<int>(text.substr(0, slash), 0);
  const auto world_size = parse_whole<int>(text.substr(std::min(slash + 1, text.size())), 1);
  if (rank && world_size && *rank < *world_size) return {*rank, *world_size};
  throw UsageError("--as-rank " + text +
                   ": not RANK/WORLD_SIZE with a rank below it, as --as-rank 3/8.");
}

bool is_job_file(const std::string& argument) {
  const std::filesystem::path extension = std::filesystem::path(argument).extension();
  return argument.find('=') == std::string::npos && (extension == ".yaml" || extension == ".yml");
}

/// ", did you mean ddp-worker eval?", or ".".
std::string suggest_verb(const std::string& typed) {
  std::vector<std::string_view> words;
  for (const VerbRule& rule : kVerbs)
    words.push_back(rule.word);
  std::optional<std::string> near = did_you_mean(typed, words);
  for (const std::string_view word : words)
    if (typed.starts_with(word)) near = word;
  return near ? ", did you mean ddp-worker " + *near + "?" : ".";
}

void take_argument(const std::string& argument,
                   Options& options,
                   std::vector<std::string>& problems) {
  if (is_job_file(argument)) {
    if (options.job_file) {
      problems.push_back(argument + ": a second job file; the first is " +
                         options.job_file->string() +
                         ". Give one, and KEY=VALUE for what differs.");
    }
    options.job_file = argument;
  } else if (const std::optional<JobOverride> given = parse_override(argument)) {
    options.overrides.push_back(*given);
  } else {
    problems.push_back(argument + ": neither a job file (*.yaml, *.yml) nor KEY=VALUE" +
                       suggest_verb(argument) + " Try --help.");
  }
}

/// "--nproc-per-node is a flag of ddp-launch. Type ddp-launch --nproc-per-node 2 job.yaml."
std::string describe_launcher_flag(const std::string& name,
                                   const VerbRule* verb,
                                   const std::vector<std::string>& words) {
  const std::string head = "--" + name + " is a flag of ddp-launch";
  if (verb != nullptr && verb->verb != Verb::evaluate)
    return head + ", and " + std::string(verb->word) + " needs none. Leave it out.";
  if (verb != nullptr)
    return head + ". Type ddp-launch [FLAGS] ddp-worker " + std::string(verb->usage) + ".";
  std::string command = "ddp-launch";
  for (const std::string& word : words)
    command += " " + quote_for_bash(mask_secret(word));
  return head + ". Type " + command + ".";
}

/// The job.yaml of the run whose directory, or whose checkpoint, `given` is; empty: there is none.
fs::path kept_job_file(const fs::path& given) {
  // `given` may be RUN, RUN/checkpoints, RUN/checkpoints/best, or RUN/best, which stands for the
  // latter.
  fs::path run = (fs::absolute(given) / "").lexically_normal().parent_path();
  std::error_code ignored;
  if (fs::exists(run / "job.yaml", ignored)) return run / "job.yaml";
  run = run.parent_path();
  if (run.filename() == "checkpoints") run = run.parent_path();
  return fs::exists(run / "job.yaml", ignored) ? run / "job.yaml" : fs::path();
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  for (int i = 0; i < argc; ++i)
    options.command += (i > 0 ? " " : "") + mask_secret(argv[i]);
  const VerbRule* const verb = find_verb(argc, argv);
  if (verb != nullptr) {
    options.verb = verb->verb;
    --argc;
    ++argv;  // so that the word is in the place of the program's name
  }
  po::options_description flags = visible_flags();
  flags.add_options()("argument", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("argument", -1);
  po::variables_map given;
  try {
    po::store(po::command_line_parser(argc, argv).options(flags).positional(positional).run(),
              given);
  } catch (const po::unknown_option& error) {
    std::string typed = error.get_option_name();
    typed = typed.substr(0, typed.find('='));
    typed.erase(0, typed.find_first_not_of('-'));
    if (is_launcher_flag(typed))
      throw UsageError(describe_launcher_flag(typed, verb, {argv + 1, argv + argc}));
    if (const auto key = key_of_unknown_flag(typed))
      throw UsageError(std::string(error.what()) + ". It is a key of the job: type " +
                       std::string(*key) + "=VALUE.");
    std::vector<std::string_view> names;
    for (const auto& option : flags.options())
      names.push_back(option->long_name());
    const std::optional<std::string> near = did_you_mean(typed, names);
    throw UsageError(std::string(error.what()) + (near ? ", did you mean --" + *near + "?" : ".") +
                     " Try --help.");
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + ". Try --help.");
  }
  options.help = given.count("help") > 0;
  options.version = given.count("version") > 0;
  options.check = given.count("check") > 0;
  options.exports_ema = given.count("ema") > 0;
  options.is_json = given.count("json") > 0;
  options.trust = given.count("trust-checkpoint") > 0;
  options.init_method = {
      find_text(given, "init-method"), find_text(given, "rank"), find_text(given, "world-size")};
  options.completion = find_text(given, "completion");
  options.man = given.count("man") > 0;
  const bool is_page = (options.completion || options.man) && verb == nullptr;
  if (options.help || options.version || is_page) return options;
  std::vector<std::string> problems = misplaced_flags(given, verb);
  if (const auto text = find_text(given, "as-rank")) options.as_rank = parse_as_rank(*text);
  if (options.as_rank && options.init_method != InitMethod()) {
    problems.emplace_back(
        "--as-rank is for one process alone: leave --init-method, --rank and "
        "--world-size out.");
  }
  if (given.count("argument") > 0) {
    const bool takes_job = verb == nullptr || options.verb == Verb::preview;
    for (const std::string& argument : given["argument"].as<std::vector<std::string>>()) {
      // The first argument of eval is the checkpoint; other verbs take files alone.
      const bool is_file = !takes_job && (options.verb != Verb::evaluate || options.files.empty());
      if (is_file)
        options.files.emplace_back(argument);
      else
        take_argument(argument, options, problems);
    }
  }
  if (verb != nullptr && (options.files.size() < verb->least || options.files.size() > verb->most))
    problems.push_back("Usage: " + usage_of(*verb) + ".");
  if (const auto output = find_text(given, "output")) options.output = *output;
  if (const auto script = find_text(given, "script")) options.script = *script;
  if (options.verb == Verb::export_weights && !options.output)
    problems.push_back("export needs -o. Usage: " + usage_of(*verb) + ".");
  if (given.count("top") > 0) options.top = given["top"].as<int>();
  if (options.top && *options.top < 1)
    problems.push_back("--top " + std::to_string(*options.top) + ": not a number from 1 on.");
  options.confidence = find_share(given, "confidence", problems);
  options.iou = find_share(given, "iou", problems);
  if (options.trust)
    options.overrides.push_back({"checkpoint.trust", "true", "--trust-checkpoint"});
  if (const auto progress = find_text(given, "progress"))
    options.overrides.push_back({"launch.progress", *progress, "--progress"});
  if (!problems.empty()) throw UsageError(problems);
  return options;
}

bool needs_all_ranks(int argc, const char* const* argv) {
  const VerbRule* const verb = find_verb(argc, argv);
  if (verb != nullptr && verb->verb != Verb::evaluate) return false;
  return std::none_of(argv + std::min(argc, 1), argv + argc, [](std::string_view argument) {
    const std::string_view flag = argument.substr(0, argument.find('='));
    const auto is_short_for = [flag](std::string_view name) { return name.starts_with(flag); };
    constexpr std::string_view kAlone[] = {
        "--check", "--as-rank", "--completion", "--man", "--help", "--version"};
    return flag == "-h" || (flag.size() > 2 && std::ranges::any_of(kAlone, is_short_for));
  });
}

std::string help_text(Verb verb) {
  std::ostringstream text;
  for (const VerbRule& rule : kVerbs) {
    if (rule.verb != verb) continue;
    text << "Usage: " << usage_of(rule) << "\n\n  " << rule.what << "\n\n"
         << (rule.least > 0 ? std::string(kCheckpointWords) + "\n" : "") << flags_of(rule.word)
         << "\nAll verbs, and the keys of a job file: ddp-worker --help\n";
    return text.str();
  }
  text << "Usage: ddp-worker " << kTraining.usage << "\n\n"
       << kTraining.what
       << "\n"
          "  ddp-worker configs/digits.yaml train.epochs=3\n"
          "  ddp-launch --nproc-per-node 2 configs/digits.yaml\n"
          "  ddp-worker configs/digits.yaml --init-method tcp://HOST:29500 --rank 0 --world-size "
          "2\n\n"
          "Verbs. "
       << kCheckpointWords << "\n";
  for (const VerbRule& rule : kVerbs)
    text << "  ddp-worker " << rule.usage << "\n      " << rule.what << "\n";
  text << "  ddp-worker " << kFetching.usage << "\n      " << kFetching.what
       << "; ddp-worker fetch --help\n\n"
       << visible_flags() << "\nKeys of a job file, with their defaults:\n";
  for (const JobKey& key : job_keys()) {
    const std::string head = "  " + std::string(key.path) + ": " + std::string(key.default_value);
    text << head << std::string(head.size() < 38 ? 38 - head.size() : 1, ' ') << key.help << '\n';
  }
  return text.str();
}

std::vector<VerbHelp> describe_verbs() {
  std::vector<VerbHelp> words{kTraining};
  for (const VerbRule& rule : kVerbs)
    words.push_back({std::string(rule.usage), std::string(rule.what)});
  words.push_back(kFetching);
  return words;
}

CompletionProgram completion_program() {
  CompletionProgram program{.name = "ddp-worker", .flags = completion_flags_of("train")};
  for (const VerbRule& rule : kVerbs) {
    const bool takes_keys = rule.verb == Verb::evaluate || rule.verb == Verb::preview;
    std::vector<std::string> names{std::string(rule.word)};
    if (!rule.also.empty()) names.emplace_back(rule.also);
    program.verbs.push_back({.names = std::move(names),
                             .flags = completion_flags_of(rule.word),
                             .takes_keys = takes_keys});
  }
  program.verbs.push_back(completion_of_fetch());
  return program;
}

std::string completion(const std::string& shell) {
  return completion_script(completion_program(), shell);
}

JobValues load_job(const Options& options) {
  const bool is_kept = !options.job_file && options.verb == Verb::evaluate;
  const fs::path path =
      is_kept ? kept_job_file(options.files.at(0)) : options.job_file.value_or(fs::path());
  if (path.empty()) {
    throw UsageError(is_kept ? options.files.at(0).string() +
                                   ": no run keeps a job.yaml there. Give one: ddp-worker eval "
                                   "CKPT JOB.yaml [KEY=VALUE ...]."
                             : std::string("no job file. Give one: ddp-worker JOB.yaml [KEY=VALUE "
                                           "...], or see --help."));
  }
  const YamlDocument file = read_yaml_file(path);
  return resolve_job(&file, options.overrides);
}

}  // namespace ddp::worker
