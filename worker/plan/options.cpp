#include "worker/plan/options.h"

#include <boost/program_options.hpp>
#include <charconv>
#include <sstream>

#include "common/error.h"

namespace ddp::worker {
namespace {

namespace po = boost::program_options;

po::options_description visible_flags() {
  po::options_description flags("Flags");
  flags.add_options()("help,h", "show this text")(
      "version", "show the versions of this program and of LibTorch")(
      "check",
      "read the data and build the model on this machine, say what it takes; train nothing")(
      "trust-checkpoint",
      "also load checkpoints and weights that belong to another user (checkpoint.trust=true)")(
      "init-method",
      po::value<std::string>()->value_name("URL"),
      "without a launcher: env://, or tcp://HOST:PORT of rank 0")(
      "rank", po::value<std::string>()->value_name("R"), "this process's rank, from 0")(
      "world-size", po::value<std::string>()->value_name("N"), "how many processes there are")(
      "output,o",
      po::value<std::string>()->value_name("PNG"),
      "of preview: where the picture goes (preview.png)")(
      "as-rank",
      po::value<std::string>()->value_name("R/N"),
      "alone, but with the data, seeds and rates of rank R of N; writes nothing: for a debugger");
  return flags;
}

std::optional<std::string> find_text(const po::variables_map& given, const char* name) {
  if (given.count(name) == 0) return {};
  return given[name].as<std::string>();
}

/// Errors: UsageError.
AsRank parse_as_rank(const std::string& text) {
  AsRank as;
  const char* const end = text.data() + text.size();
  const auto [slash, rank_error] = std::from_chars(text.data(), end, as.rank);
  const bool has_rank = rank_error == std::errc() && slash != end && *slash == '/';
  if (has_rank) {
    const auto [rest, error] = std::from_chars(slash + 1, end, as.world_size);
    if (error == std::errc() && rest == end && as.rank >= 0 && as.rank < as.world_size) return as;
  }
  throw UsageError("--as-rank " + text +
                   ": not RANK/WORLD_SIZE with a rank below it, as --as-rank 3/8.");
}

bool is_job_file(const std::string& argument) {
  const std::filesystem::path extension = std::filesystem::path(argument).extension();
  return argument.find('=') == std::string::npos && (extension == ".yaml" || extension == ".yml");
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
    problems.push_back(argument +
                       ": neither a job file (*.yaml, *.yml) nor KEY=VALUE. Try --help.");
  }
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  for (int i = 0; i < argc; ++i)
    options.command += (i > 0 ? " " : "") + mask_secret(argv[i]);
  const bool is_preview = argc > 1 && std::string(argv[1]) == "preview";
  if (is_preview) {
    --argc;
    ++argv;  // the word stands where the program's name stood
  }
  std::vector<std::string> problems;
  po::options_description flags = visible_flags();
  flags.add_options()("argument", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("argument", -1);
  po::variables_map given;
  try {
    po::store(po::command_line_parser(argc, argv).options(flags).positional(positional).run(),
              given);
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + ". Try --help.");
  }
  options.help = given.count("help") > 0;
  options.version = given.count("version") > 0;
  options.check = given.count("check") > 0;
  options.init_method = {
      find_text(given, "init-method"), find_text(given, "rank"), find_text(given, "world-size")};
  if (const auto text = find_text(given, "as-rank")) options.as_rank = parse_as_rank(*text);
  if (options.as_rank && options.init_method != InitMethod()) {
    problems.emplace_back(
        "--as-rank is for one process alone: leave --init-method, --rank and "
        "--world-size out.");
  }
  if (given.count("argument") > 0) {
    for (const std::string& argument : given["argument"].as<std::vector<std::string>>()) {
      take_argument(argument, options, problems);
    }
  }
  if (given.count("trust-checkpoint") > 0)
    options.overrides.push_back({"checkpoint.trust", "true", "--trust-checkpoint"});
  const std::optional<std::string> output = find_text(given, "output");
  if (is_preview) options.preview = output.value_or("preview.png");
  if (output && !is_preview)
    problems.push_back("--output " + *output +
                       ": is of preview: ddp-worker preview JOB.yaml -o PNG.");
  if (!problems.empty()) throw UsageError(problems);
  return options;
}

std::string help_text() {
  std::ostringstream text;
  text << "Usage: ddp-worker JOB.yaml [KEY=VALUE ...]\n\n"
          "Trains one rank of a job; alone (no launcher), it is rank 0 of 1.\n"
          "  ddp-worker configs/digits.yaml train.epochs=3\n"
          "  ddp-launch --nproc-per-node 2 configs/digits.yaml\n"
          "  ddp-worker preview configs/digits.yaml -o digits.png    what the model is going to "
          "see\n"
          "  ddp-worker fetch mnist DIR            gets a published data set; ddp-worker fetch "
          "--help\n"
          "  ddp-worker configs/digits.yaml --init-method tcp://HOST:29500 --rank 0 --world-size "
          "2\n\n"
       << visible_flags() << "\nKeys of a job file, with their defaults:\n";
  for (const JobKey& key : job_keys()) {
    const std::string head = "  " + std::string(key.path) + ": " + std::string(key.default_value);
    text << head << std::string(head.size() < 38 ? 38 - head.size() : 1, ' ') << key.help << '\n';
  }
  return text.str();
}

JobValues load_job(const Options& options) {
  if (!options.job_file) {
    throw UsageError("no job file. Give one: ddp-worker JOB.yaml [KEY=VALUE ...], or see --help.");
  }
  const YamlDocument file = read_yaml_file(*options.job_file);
  return resolve_job(&file, options.overrides);
}

}  // namespace ddp::worker
