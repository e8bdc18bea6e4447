#include "worker/fetch/fetch_options.h"

#include <algorithm>
#include <string_view>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/spelling.h"
#include "common/text/units.h"

namespace ddp::worker {
namespace {

bool is_address(const std::string& text) {
  return text.starts_with("http://") || text.starts_with("https://");
}

/// Takes a value for its flag, or adds a problem to `problems`.
void take_value(const std::string& flag,
                const std::string& value,
                FetchOptions& options,
                std::vector<std::string>& problems) {
  if (flag == "--from") {
    if (!is_address(value))
      problems.push_back("--from " + value + ": not an http:// or https:// address.");
    options.from = value.ends_with('/') ? value : value + "/";
    return;
  }
  if (flag == "--min-rate") {
    const std::optional<std::int64_t> rate = value == "0" ? 0 : parse_bytes(value);
    if (!rate)
      problems.push_back("--min-rate " + value +
                         ": not a number of bytes a second, as 1kB; 0: any.");
    options.min_rate = rate.value_or(0);
    return;
  }
  const std::optional<std::chrono::milliseconds> limit = parse_duration(value);
  if (!limit || *limit < std::chrono::seconds(1)) {
    problems.push_back("--stall-limit " + value + ": not a duration of 1s or more, as 30s.");
    return;
  }
  options.stall_limit = *limit;
}

void check_set(const std::string& set,
               const std::vector<std::string>& known,
               std::vector<std::string>& problems) {
  if (std::find(known.begin(), known.end(), set) != known.end()) return;
  const std::optional<std::string> near =
      did_you_mean(set, std::vector<std::string_view>(known.begin(), known.end()));
  problems.push_back(set + ": unknown data set" +
                     (near ? ", did you mean \"" + *near + "\"?" : ".") +
                     " There are: " + join_words(known) + ".");
}

}  // namespace

FetchOptions parse_fetch_options(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& known) {
  FetchOptions options;
  std::vector<std::string> problems;
  std::vector<std::string> positional;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string flag = argument.substr(0, argument.find('='));
    if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--dry-run") {
      options.dry_run = true;
    } else if (flag == "--from" || flag == "--stall-limit" || flag == "--min-rate") {
      const bool is_joined = flag.size() < argument.size();
      if (!is_joined && i + 1 == arguments.size())
        problems.push_back(flag + ": needs a value.");
      else
        take_value(
            flag, is_joined ? argument.substr(flag.size() + 1) : arguments[++i], options, problems);
    } else if (argument.starts_with('-')) {
      problems.push_back(argument + ": unknown flag. Try ddp-worker fetch --help.");
    } else {
      positional.push_back(argument);
    }
  }
  if (options.help) return options;
  if (positional.size() != 2) {
    problems.push_back(
        "give the name of a set and a directory: ddp-worker fetch NAME DIR, NAME is " +
        join_words(known) + ".");
  } else {
    options.set = positional[0];
    options.directory = positional[1];
    check_set(options.set, known, problems);
  }
  if (!problems.empty()) throw UsageError(problems);
  return options;
}

std::string fetch_help(const std::vector<std::string>& known) {
  std::string sets;
  std::string weights;
  for (const std::string& name : known)
    add_word(name.starts_with("weights/") ? weights : sets, name);
  return "Usage: ddp-worker fetch NAME DIR [--from URL] [--stall-limit 30s] [--min-rate 1kB] "
         "[--dry-run]\n\n"
         "Gets the files of a published data set into DIR, where data.root=DIR finds them, or the\n"
         "weights of a model that torchvision publishes, for model.weights.\n"
         "NAME is " +
         sets + (weights.empty() ? "" : ",\n" + weights) +
         ".\n\n"
         "Each file is checked by size and SHA-256 before it gets its name; of the digest of "
         "weights,\n"
         "eight digits are published. What was cut off goes on where it stopped (NAME.part). "
         "Proxies\n"
         "are taken from http_proxy, https_proxy and no_proxy.\n\n"
         "  --from URL           take the files from below this address: a mirror\n"
         "  --stall-limit TIME   without a byte for so long, try again, three times at most (30s)\n"
         "  --min-rate BYTES     fewer a second, on average over so long, are as good as none; 0: "
         "any "
         "(1kB)\n"
         "  --dry-run            print addresses, sizes and digests; get nothing\n"
         "  --help               show this text\n\n"
         "Exit codes: 0 all files are there, 2 the command is wrong, 125 the set could not be "
         "got.\n";
}

}  // namespace ddp::worker
