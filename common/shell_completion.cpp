#include "common/shell_completion.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/job_keys.h"
#include "common/shell_quotes.h"

namespace ddp {
namespace {

using Value = CompletedFlag::Value;

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> job_key_words() {
  std::vector<std::string> words;
  for (const JobKey& key : job_keys())
    words.push_back(std::string(key.path) + "=");
  return words;
}

std::string verb_names(const CompletedProgram& program) {
  std::vector<std::string> names;
  for (const CompletedVerb& verb : program.verbs)
    names.push_back(verb.name);
  return join(names);
}

/// The beginning of functions: "_ddp_launch".
std::string identifier(const CompletedProgram& program) {
  std::string name = "_" + program.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// `text` with `program` for PROGRAM and the beginning of its functions for FUNCTION.
std::string fill_in(std::string text, const CompletedProgram& program) {
  for (const auto& [word, value] :
       {std::pair<std::string_view, std::string>{"PROGRAM", program.name},
        {"FUNCTION", identifier(program)}}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), value);
  }
  return text;
}

// --- bash ------------------------------------------------------------------------------------

// Bash splits words at '=' and ':' (COMP_WORDBREAKS), so "--tee=" is three words and the one that
// is completed begins behind the sign.
constexpr const char* kBashBegin = R"(# bash completion of PROGRAM.
# For you: PROGRAM --completion bash > ~/.local/share/bash-completion/completions/PROGRAM
# For now: source <(PROGRAM --completion bash)
FUNCTION() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
  local is_behind_equals=no given job= flags= words=
)";

constexpr const char* kBashVerbs = R"(  COMPREPLY=()
  (( COMP_CWORD == 1 )) || case "${COMP_WORDS[1]}" in
)";

constexpr const char* kBashValues = R"(  esac
  if [[ "$word" == '=' ]]; then word=; is_behind_equals=yes;
  elif [[ "$before" == '=' ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; is_behind_equals=yes; fi
  if [[ -n "$flags" ]]; then
    compopt -o filenames
    if [[ "$is_behind_equals" == yes ]]; then COMPREPLY=($(compgen -f -- "$word"));
    elif [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$word"));
    else COMPREPLY=($(compgen -f -- "$word") $(compgen -W "$words" -- "$word")); fi
    [[ "${COMPREPLY[0]}" != *= ]] || compopt -o nospace
    return
  fi
  case "$before" in
)";

constexpr const char* kBashRest = R"(  esac
  if [[ "$is_behind_equals" == yes ]]; then compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")); return; fi
  for given in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ "$given" != *.yaml && "$given" != *.yml ]] || job="$given"
  done
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W ')";

constexpr const char* kBashKeys = R"(' -- "$word"))
  elif [[ -n "$job" ]]; then
    compopt -o nospace
    COMPREPLY=($(compgen -W "$keys" -- "$word"))
  else
    compopt -o filenames
    COMPREPLY=($(compgen -f -- "$word"))
    (( COMP_CWORD > 1 )) || COMPREPLY+=($(compgen -W ')";

std::string bash_names(const std::vector<CompletedFlag>& flags) {
  std::vector<std::string> names;
  for (const CompletedFlag& flag : flags)
    names.push_back("--" + flag.name);
  return join(names);
}

/// Of the value of each flag that takes one, an arm of the case.
std::string bash_values(const std::vector<CompletedFlag>& flags) {
  std::string arms;
  for (const CompletedFlag& flag : flags) {
    if (flag.value == Value::none) continue;
    const std::string letter = flag.letter != '\0' ? std::string("|-") + flag.letter : "";
    arms += "    --" + flag.name + letter + ") ";
    const std::string words = flag.takes_key ? "\"${keys//=/}\"" : "'" + join(flag.choices) + "'";
    const std::string choices = "COMPREPLY=($(compgen -W " + words + " -- \"$word\")); return";
    if (flag.takes_path)
      arms += "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n";
    else if (flag.value == Value::optional)
      arms += "if [[ \"$is_behind_equals\" == yes ]]; then " + choices + "; fi ;;\n";
    else
      arms += choices + " ;;\n";
  }
  return arms;
}

constexpr const char* kBashEnd = R"(' -- "$word"))
  fi
}
complete -F FUNCTION PROGRAM
)";

std::string bash(const CompletedProgram& program) {
  std::string verbs;
  for (const CompletedVerb& verb : program.verbs) {
    if (verb.flags.empty()) continue;
    verbs += "    " + verb.name + ") flags='" + bash_names(verb.flags) + "'";
    if (!verb.words.empty()) verbs += " words='" + join(verb.words) + "'";
    if (verb.takes_keys) verbs += "; (( COMP_CWORD < 3 )) || words=\"$keys\"";
    verbs += " ;;\n";
  }
  return fill_in(std::string(kBashBegin) + "  local keys='" + join(job_key_words()) + "'\n" +
                     kBashVerbs + verbs + kBashValues + bash_values(program.flags) + kBashRest +
                     bash_names(program.flags) + kBashKeys + verb_names(program) + kBashEnd,
                 program);
}

// --- zsh -------------------------------------------------------------------------------------

constexpr const char* kZshBegin = R"(#compdef PROGRAM
# zsh completion of PROGRAM. Put it as _PROGRAM into a directory of $fpath:
#   PROGRAM --completion zsh > ~/.zfunc/_PROGRAM
# For now: source <(PROGRAM --completion zsh)
)";

constexpr const char* kZshFunctions = R"(FUNCTION_keys() { compadd -S '' -- $FUNCTION_all; }
FUNCTION_key_names() { compadd -- ${FUNCTION_all%=}; }
FUNCTION_files_and_keys() { _files; FUNCTION_keys; }
FUNCTION_rest() {
  local -a jobs=(${(M)words[2,CURRENT-1]:#*.y(a|)ml})
  if (( $#jobs )); then FUNCTION_keys; else _files; fi
}
)";

constexpr const char* kZshEnd = R"(    '1: :FUNCTION_first' '*: :FUNCTION_rest'
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then FUNCTION "$@"; else compdef FUNCTION PROGRAM; fi
)";

/// Text inside of a specification of zsh's _arguments.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// The specifications of a flag and of its letter.
std::vector<std::string> zsh_specs(const CompletedFlag& flag) {
  std::string rest = "[" + zsh_text(flag.help) + "]";
  if (flag.value != Value::none) {
    rest += flag.value == Value::optional ? "::" : ":";
    rest += zsh_text(flag.placeholder.empty() ? "choice" : flag.placeholder) + ":";
    if (flag.takes_path) rest += "_files";
    if (flag.takes_key) rest += "FUNCTION_key_names";
    if (!flag.choices.empty()) rest += "(" + join(flag.choices) + ")";
  }
  const char* const sign = flag.value == Value::none       ? ""
                           : flag.value == Value::optional ? "=-"
                                                           : "=";
  std::vector<std::string> specs{in_quotes("--" + flag.name + sign + rest)};
  if (flag.letter != '\0') specs.push_back(in_quotes(std::string("-") + flag.letter + rest));
  return specs;
}

std::string zsh(const CompletedProgram& program) {
  std::string verbs;
  for (const CompletedVerb& verb : program.verbs) {
    if (verb.flags.empty()) continue;
    verbs += "    " + verb.name + ") _arguments -s";
    for (const CompletedFlag& flag : verb.flags)
      verbs += " " + join(zsh_specs(flag));
    if (!verb.words.empty()) verbs += " '2: :(" + join(verb.words) + ")'";
    if (verb.takes_keys) verbs += " '2: :_files'";
    verbs += verb.takes_keys ? " '*: :FUNCTION_files_and_keys'; return ;;\n"
                             : " '*: :_files'; return ;;\n";
  }
  std::string specs;
  for (const CompletedFlag& flag : program.flags) {
    for (const std::string& spec : zsh_specs(flag))
      specs += "    " + spec + " \\\n";
  }
  return fill_in(std::string(kZshBegin) + "typeset -ga FUNCTION_all=(" + join(job_key_words()) +
                     ")\n" + kZshFunctions + "FUNCTION_first() {\n  compadd -- " +
                     verb_names(program) + "\n  _files\n}\nFUNCTION() {\n" +
                     "  (( CURRENT == 2 )) || case $words[2] in\n" + verbs +
                     "  esac\n  _arguments -s \\\n" + specs + kZshEnd,
                 program);
}

// --- fish ------------------------------------------------------------------------------------

constexpr const char* kFishBegin = R"(# fish completion of PROGRAM.
# For you: PROGRAM --completion fish > ~/.config/fish/completions/PROGRAM.fish
function _FUNCTION_has_job
  string match -qr '\.ya?ml$' -- (commandline -opc)[2..]
end
function _FUNCTION_has_verb
  set -l words (commandline -opc)
  contains -- "$words[2]" $argv
end
)";

constexpr const char* kFishKeys = R"(
end
complete -c PROGRAM -f -n _FUNCTION_has_job -a '(_FUNCTION_keys | string replace -r \$ =)'
)";

/// Inside of single quotes.
std::string fish_text(std::string_view text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return escaped;
}

std::string fish_line(const std::string& condition, const CompletedFlag& flag) {
  std::string line = "complete -c PROGRAM -n '" + condition + "' -l " + flag.name;
  if (flag.letter != '\0') line += std::string(" -s ") + flag.letter;
  if (flag.value == Value::required) line += flag.takes_path ? " -r" : " -x";
  const std::string words = flag.takes_key ? "(_FUNCTION_keys)" : join(flag.choices);
  if (!words.empty()) line += " -a '" + words + "'";
  return line + " -d '" + fish_text(flag.help) + "'\n";
}

std::string fish(const CompletedProgram& program) {
  std::string lines = kFishBegin;
  lines += "complete -c PROGRAM -n __fish_is_first_arg -a '" + verb_names(program) + "'\n";
  std::vector<std::string> with_flags;
  for (const CompletedVerb& verb : program.verbs) {
    if (verb.flags.empty()) continue;
    with_flags.push_back(verb.name);
    const std::string condition = "_FUNCTION_has_verb " + verb.name;
    for (const CompletedFlag& flag : verb.flags)
      lines += fish_line(condition, flag);
    const std::string words =
        verb.takes_keys ? "(_FUNCTION_keys | string replace -r \\$ =)" : join(verb.words);
    if (!words.empty()) lines += "complete -c PROGRAM -n '" + condition + "' -a '" + words + "'\n";
  }
  for (const CompletedFlag& flag : program.flags)
    lines += fish_line("not _FUNCTION_has_verb " + join(with_flags), flag);
  lines += "function _FUNCTION_keys\n  printf '%s\\n'";
  for (const JobKey& key : job_keys())
    lines += " " + std::string(key.path);
  return fill_in(lines + kFishKeys, program);
}

}  // namespace

std::vector<std::string> choices_of(std::string placeholder) {
  std::vector<std::string> words;
  placeholder += "|";
  for (std::size_t start = 0; start < placeholder.size();) {
    const std::size_t end = placeholder.find('|', start);
    const std::string word = placeholder.substr(start, end - start);
    const bool is_word = std::ranges::none_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_word && !word.empty() && word.find_first_of(",:.") == std::string::npos)
      words.push_back(word);
    start = end + 1;
  }
  return words;
}

std::string completion_script(const CompletedProgram& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  throw UsageError("--completion " + shell +
                   ": is not a shell that is known. Give bash, zsh or fish.");
}

}  // namespace ddp
