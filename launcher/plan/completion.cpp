#include "launcher/plan/completion.h"

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "common/job_keys.h"
#include "common/shell_quotes.h"
#include "launcher/plan/flags.h"
#include "launcher/plan/help.h"
#include "launcher/plan/verbs.h"

namespace ddp::launcher {
namespace {

bool takes_value(const Flag& flag) {
  return flag.value != FlagValue::none && flag.value != FlagValue::optional;
}

/// "a|b|c" where all of it are words to be typed, and not a stand-in as N or DIR.
std::vector<std::string> choices_of(const Flag& flag) {
  std::vector<std::string> words;
  std::string text = placeholder_of(flag) + "|";
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == '='; });
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('|', start);
    const std::string word = text.substr(start, end - start);
    const bool is_word = std::ranges::none_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_word && !word.empty() && word.find_first_of(",:.") == std::string::npos)
      words.push_back(word);
    start = end + 1;
  }
  return words;
}

bool takes_path(const Flag& flag) {
  return flag.placeholder == "FILE" || flag.placeholder == "DIR";
}

std::string join(const std::vector<std::string>& words, const std::string& separator = " ") {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> job_key_words() {
  std::vector<std::string> words;
  for (const JobKey& key : job_keys())
    words.push_back(std::string(key.path) + "=");
  return words;
}

std::string verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : verbs())
    names.emplace_back(verb.name);
  return join(names);
}

/// Doctor takes the flags of a job; the other verbs have their own, and --help.
std::vector<std::string> flags_of(const Verb& verb) {
  std::vector<std::string> names;
  if (!verb.asks_agents && verb.flags.empty()) return names;
  for (const VerbFlag& flag : verb.flags)
    names.emplace_back(flag.name);
  names.emplace_back("--help");
  return names;
}

// Bash splits words at '=' and ':' (COMP_WORDBREAKS), so "--tee=" is three words and the one that
// is completed begins behind the sign.
std::string bash() {
  std::vector<std::string> names;
  std::string values;
  for (const Flag& flag : flags()) {
    std::string name = "--" + std::string(flag.name);
    names.push_back(name);
    if (flag.letter != '\0') name += std::string("|-") + flag.letter;
    const std::string words = join(choices_of(flag));
    if (takes_path(flag)) {
      values += "    " + name +
                ") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n";
    } else if (flag.value == FlagValue::optional) {
      values += "    " + name +
                ") if [[ \"$is_behind_equals\" == yes ]]; then COMPREPLY=($(compgen -W '" + words +
                "' -- \"$word\")); return; fi ;;\n";
    } else if (takes_value(flag)) {
      values +=
          "    " + name + ") COMPREPLY=($(compgen -W '" + words + "' -- \"$word\")); return ;;\n";
    }
  }
  std::string verb_flags;
  for (const Verb& verb : verbs()) {
    if (const std::vector<std::string> own = flags_of(verb); !own.empty())
      verb_flags += "    " + std::string(verb.name) + ") flags='" + join(own) + "' ;;\n";
  }
  return "# bash completion of ddp-launch.\n"
         "# For you: ddp-launch --completion bash > "
         "~/.local/share/bash-completion/completions/ddp-launch\n"
         "# For now: source <(ddp-launch --completion bash)\n"
         "_ddp_launch() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local is_behind_equals=no given job= flags=\n"
         "  COMPREPLY=()\n"
         "  (( COMP_CWORD == 1 )) || case \"${COMP_WORDS[1]}\" in\n" +
         verb_flags +
         "  esac\n"
         "  if [[ -n \"$flags\" ]]; then\n"
         "    if [[ \"$word\" == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"));\n"
         "    else compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "    return\n"
         "  fi\n"
         "  if [[ \"$word\" == '=' ]]; then word=; is_behind_equals=yes;\n"
         "  elif [[ \"$before\" == '=' ]]; then before=\"${COMP_WORDS[COMP_CWORD-2]}\"; "
         "is_behind_equals=yes; fi\n"
         "  case \"$before\" in\n" +
         values +
         "  esac\n"
         "  if [[ \"$is_behind_equals\" == yes ]]; then compopt -o filenames; COMPREPLY=($(compgen "
         "-f -- \"$word\")); return; fi\n"
         "  for given in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    [[ \"$given\" != *.yaml && \"$given\" != *.yml ]] || job=\"$given\"\n"
         "  done\n"
         "  if [[ \"$word\" == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         join(names) +
         "' -- \"$word\"))\n"
         "  elif [[ -n \"$job\" || \"$before\" == --explain ]]; then\n"
         "    [[ \"$before\" == --explain ]] || compopt -o nospace\n"
         "    COMPREPLY=($(compgen -W '" +
         join(job_key_words()) +
         "' -- \"$word\"))\n"
         "  else\n"
         "    compopt -o filenames\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "    (( COMP_CWORD > 1 )) || COMPREPLY+=($(compgen -W '" +
         verb_names() +
         "' -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _ddp_launch ddp-launch\n";
}

/// Text inside of a specification of zsh's _arguments.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh() {
  std::string specs;
  for (const Flag& flag : flags()) {
    std::string spec = "--" + std::string(flag.name);
    if (takes_value(flag)) spec += "=";
    if (flag.value == FlagValue::optional) spec += "=-";
    spec += "[" + zsh_text(describe(flag)) + "]";
    const std::vector<std::string> words = choices_of(flag);
    if (flag.value != FlagValue::none) {
      spec += flag.value == FlagValue::optional ? "::" : ":";
      spec += zsh_text(flag.placeholder.empty() ? "choice" : flag.placeholder) + ":";
      if (takes_path(flag)) spec += "_files";
      if (flag.name == "explain") spec += "_ddp_launch_keys";
      if (!words.empty()) spec += "(" + join(words) + ")";
    }
    specs += "    " + in_quotes(spec) + " \\\n";
    if (flag.letter != '\0')
      specs += "    " + in_quotes(std::string("-") + flag.letter + spec.substr(spec.find('['))) +
               " \\\n";
  }
  std::string verb_cases;
  for (const Verb& verb : verbs()) {
    if (flags_of(verb).empty()) continue;
    verb_cases += "    " + std::string(verb.name) + ") _arguments -s";
    for (const VerbFlag& flag : verb.flags) {
      const std::string spec = std::string(flag.name) + "[" + zsh_text(flag.help) + "]";
      verb_cases += " " + in_quotes(flag.placeholder.empty()
                                        ? spec
                                        : spec + ":" + std::string(flag.placeholder) + ":_files");
    }
    verb_cases += " '--help[show its help]' '*: :_files'; return ;;\n";
  }
  return "#compdef ddp-launch\n"
         "# zsh completion of ddp-launch. Put it as _ddp-launch into a directory of $fpath:\n"
         "#   ddp-launch --completion zsh > ~/.zfunc/_ddp-launch\n"
         "# For now: source <(ddp-launch --completion zsh)\n"
         "_ddp_launch_keys() {\n"
         "  local -a keys=(" +
         join(job_key_words()) +
         ")\n"
         "  if [[ $words[CURRENT-1] == --explain ]]; then compadd -- ${keys%=}; else compadd -S '' "
         "-- $keys; fi\n"
         "}\n"
         "_ddp_launch_rest() {\n"
         "  local -a jobs=(${(M)words[2,CURRENT-1]:#*.y(a|)ml})\n"
         "  if (( $#jobs )); then _ddp_launch_keys; else _files; fi\n"
         "}\n"
         "_ddp_launch_first() {\n"
         "  compadd -- " +
         verb_names() +
         "\n"
         "  _files\n"
         "}\n"
         "_ddp_launch() {\n"
         "  (( CURRENT == 2 )) || case $words[2] in\n" +
         verb_cases +
         "  esac\n"
         "  _arguments -s \\\n" +
         specs +
         "    '1: :_ddp_launch_first' '*: :_ddp_launch_rest'\n"
         "}\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ddp_launch \"$@\"; else compdef "
         "_ddp_launch ddp-launch; fi\n";
}

std::string fish() {
  std::string lines =
      "# fish completion of ddp-launch.\n"
      "# For you: ddp-launch --completion fish > ~/.config/fish/completions/ddp-launch.fish\n"
      "function __ddp_launch_has_job\n"
      "  string match -qr '\\.ya?ml$' -- (commandline -opc)[2..]\n"
      "end\n"
      "function __ddp_launch_has_verb\n"
      "  set -l words (commandline -opc)\n"
      "  contains -- \"$words[2]\" $argv\n"
      "end\n"
      "complete -c ddp-launch -n __fish_is_first_arg -a " +
      in_quotes(verb_names()) + "\n";
  std::vector<std::string> with_flags;
  for (const Verb& verb : verbs()) {
    if (flags_of(verb).empty()) continue;
    with_flags.emplace_back(verb.name);
    const std::string begin =
        "complete -c ddp-launch -n '__ddp_launch_has_verb " + std::string(verb.name) + "' -l ";
    for (const VerbFlag& flag : verb.flags) {
      lines += begin + std::string(flag.name.substr(2)) + (flag.placeholder.empty() ? "" : " -r") +
               " -d " + in_quotes(flag.help) + "\n";
    }
    lines += begin + "help -d 'show its help'\n";
  }
  const std::string of_jobs = in_quotes("not __ddp_launch_has_verb " + join(with_flags));
  for (const Flag& flag : flags()) {
    lines += "complete -c ddp-launch -n " + of_jobs + " -l " + std::string(flag.name);
    if (flag.letter != '\0') lines += std::string(" -s ") + flag.letter;
    if (takes_value(flag)) lines += takes_path(flag) ? " -r" : " -x";
    const std::string words =
        flag.name == "explain" ? "(__ddp_launch_keys)" : join(choices_of(flag));
    if (!words.empty()) lines += " -a " + in_quotes(words);
    std::string help = describe(flag);
    std::string escaped;
    for (const char c : help)
      escaped += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    lines += " -d '" + escaped + "'\n";
  }
  std::string keys;
  for (const JobKey& key : job_keys())
    keys += " " + std::string(key.path);
  return lines + "function __ddp_launch_keys\n  printf '%s\\n'" + keys +
         "\nend\n"
         "complete -c ddp-launch -f -n __ddp_launch_has_job -a '(__ddp_launch_keys | string "
         "replace -r \\$ =)'\n";
}

}  // namespace

std::string completion(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  throw UsageError("--completion " + shell +
                   ": is not a shell that is known. Give bash, zsh or fish.");
}

}  // namespace ddp::launcher
