#include "common/cli/shell_completion.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/text/join_words.h"
#include "common/text/shell_quotes.h"

namespace ddp {
namespace {

using Value = CompletionFlag::Value;

std::vector<std::string> job_key_words() {
  std::vector<std::string> words;
  for (const JobKey& key : job_keys())
    words.push_back(std::string(key.path) + "=");
  return words;
}

std::string verb_names(const CompletionProgram& program) {
  std::vector<std::string> names;
  for (const CompletionVerb& verb : program.verbs)
    names.push_back(verb.names.front());
  return join_words(names, " ");
}

/// The verbs that do not take the flags of the program.
std::vector<CompletionVerb> with_flags(const CompletionProgram& program) {
  std::vector<CompletionVerb> verbs = program.verbs;
  std::erase_if(verbs, [](const CompletionVerb& verb) { return verb.flags.empty(); });
  return verbs;
}

/// The prefix of function names: "_ddp_launch".
std::string identifier(const CompletionProgram& program) {
  std::string name = "_" + program.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

/// `text` with the program's name for @PROGRAM@ and the prefix of its functions for @FUNCTION@.
std::string fill_in(std::string text, const CompletionProgram& program) {
  const std::pair<std::string_view, std::string> values[] = {{"@PROGRAM@", program.name},
                                                             {"@FUNCTION@", identifier(program)}};
  for (const auto& [word, value] : values) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), value);
  }
  return text;
}

/// The words of "auto|plain|off", if all are literal, and none a placeholder such as N or DIR.
std::vector<std::string> choices_of(const CompletionFlag& flag) {
  std::vector<std::string> words;
  std::string text = flag.placeholder + "|";
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

bool takes_path(const CompletionFlag& flag) {
  return flag.placeholder == "FILE" || flag.placeholder == "DIR";
}

// --- bash ------------------------------------------------------------------------------------

// Bash splits words at '=' and ':' (COMP_WORDBREAKS), so "--tee=" is three words and the completed
// one begins after the sign.
constexpr const char* kBashBegin = R"(# bash completion of @PROGRAM@.
# For you: @PROGRAM@ --completion bash > ~/.local/share/bash-completion/completions/@PROGRAM@
# For now: source <(@PROGRAM@ --completion bash)
@FUNCTION@_files() {
  compopt -o filenames
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
@FUNCTION@_words() { mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$1" -- "$word"); }
@FUNCTION@() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
  local is_behind_equals=no given job= flags= words=
)";

constexpr const char* kBashVerbs = R"(  COMPREPLY=()
  if [[ "$word" == '=' ]]; then word=; is_behind_equals=yes;
  elif [[ "$before" == '=' ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; is_behind_equals=yes; fi
  (( COMP_CWORD == 1 )) || case "${COMP_WORDS[1]}" in
)";

constexpr const char* kBashValues = R"(  esac
  if [[ -n "$flags" ]]; then
    if [[ "$is_behind_equals" == yes ]]; then @FUNCTION@_files;
    elif [[ "$word" == -* ]]; then @FUNCTION@_words "$flags";
    else @FUNCTION@_files; @FUNCTION@_words "$words"; fi
    [[ "${COMPREPLY[0]}" != *= ]] || compopt -o nospace -o noquote
    return
  fi
  case "$before" in
)";

constexpr const char* kBashRest = R"(  esac
  if [[ "$is_behind_equals" == yes ]]; then @FUNCTION@_files; return; fi
  for given in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ "$given" != *.yaml && "$given" != *.yml ]] || job="$given"
  done
  if [[ "$word" == -* ]]; then @FUNCTION@_words ')";

constexpr const char* kBashKeys = R"('
  elif [[ -n "$job" ]]; then compopt -o nospace; @FUNCTION@_words "$keys"
  else
    @FUNCTION@_files
    (( COMP_CWORD > 1 )) || @FUNCTION@_words ')";

constexpr const char* kBashEnd = R"('
  fi
}
complete -F @FUNCTION@ @PROGRAM@
)";

std::string bash_names(const std::vector<CompletionFlag>& flags) {
  std::vector<std::string> names;
  for (const CompletionFlag& flag : flags)
    names.push_back("--" + flag.name);
  return join_words(names, " ");
}

/// One arm of the case for each flag with a value.
std::string bash_values(const std::vector<CompletionFlag>& flags) {
  std::string arms;
  for (const CompletionFlag& flag : flags) {
    if (flag.value == Value::none) continue;
    const std::string letter = flag.letter != '\0' ? std::string("|-") + flag.letter : "";
    const std::string words =
        flag.takes_key ? "\"${keys//=/}\"" : "'" + join_words(choices_of(flag), " ") + "'";
    std::string arm =
        takes_path(flag) ? "@FUNCTION@_files; return" : "@FUNCTION@_words " + words + "; return";
    if (flag.value == Value::optional)
      arm = "if [[ \"$is_behind_equals\" == yes ]]; then " + arm + "; fi";
    arms += "    --" + flag.name + letter + ") " + arm + " ;;\n";
  }
  return arms;
}

std::string bash(const CompletionProgram& program) {
  std::string verbs;
  for (const CompletionVerb& verb : with_flags(program)) {
    verbs += "    " + join_words(verb.names, "|") + ")\n";
    if (const std::string values = bash_values(verb.flags); !values.empty())
      verbs += "      case \"$before\" in\n" + values + "      esac\n";
    verbs += "      flags='" + bash_names(verb.flags) + "'";
    if (!verb.words.empty()) verbs += " words='" + join_words(verb.words, " ") + "'";
    if (verb.takes_keys) verbs += "; (( COMP_CWORD < 3 )) || words=\"$keys\"";
    verbs += " ;;\n";
  }
  return fill_in(std::string(kBashBegin) + "  local keys='" + join_words(job_key_words(), " ") +
                     "'\n" + kBashVerbs + verbs + kBashValues + bash_values(program.flags) +
                     kBashRest + bash_names(program.flags) + kBashKeys + verb_names(program) +
                     kBashEnd,
                 program);
}

// --- zsh -------------------------------------------------------------------------------------

constexpr const char* kZshBegin = R"(#compdef @PROGRAM@
# zsh completion of @PROGRAM@. Put it as _@PROGRAM@ into a directory of $fpath:
#   @PROGRAM@ --completion zsh > ~/.zfunc/_@PROGRAM@
# For now: source <(@PROGRAM@ --completion zsh)
)";

constexpr const char* kZshFunctions = R"(@FUNCTION@_keys() { compadd -S '' -- $@FUNCTION@_all; }
@FUNCTION@_key_names() { compadd -- ${@FUNCTION@_all%=}; }
@FUNCTION@_files_and_keys() { _files; @FUNCTION@_keys; }
@FUNCTION@_rest() {
  local -a jobs=(${(M)words[2,CURRENT-1]:#*.y(a|)ml})
  if (( $#jobs )); then @FUNCTION@_keys; else _files; fi
}
)";

constexpr const char* kZshEnd = R"(    '1: :@FUNCTION@_first' '*: :@FUNCTION@_rest'
}
if [[ $funcstack[1] == _@PROGRAM@ ]]; then @FUNCTION@ "$@"; else compdef @FUNCTION@ @PROGRAM@; fi
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
std::vector<std::string> zsh_specs(const CompletionFlag& flag) {
  std::string rest = "[" + zsh_text(flag.help) + "]";
  if (flag.value != Value::none) {
    rest += flag.value == Value::optional ? "::" : ":";
    rest += zsh_text(flag.placeholder) + ":";
    if (takes_path(flag)) rest += "_files";
    if (flag.takes_key) rest += "@FUNCTION@_key_names";
    if (const auto choices = choices_of(flag); !choices.empty())
      rest += "(" + join_words(choices, " ") + ")";
  }
  const char* const sign = flag.value == Value::none       ? ""
                           : flag.value == Value::optional ? "=-"
                                                           : "=";
  std::vector<std::string> specs{in_quotes("--" + flag.name + sign + rest)};
  if (flag.letter != '\0') specs.push_back(in_quotes(std::string("-") + flag.letter + rest));
  return specs;
}

std::string zsh(const CompletionProgram& program) {
  std::string verbs;
  for (const CompletionVerb& verb : with_flags(program)) {
    verbs += "    " + join_words(verb.names, "|") + ") _arguments -s";
    for (const CompletionFlag& flag : verb.flags)
      verbs += " " + join_words(zsh_specs(flag), " ");
    if (!verb.words.empty()) verbs += " '2: :(" + join_words(verb.words, " ") + ")'";
    if (verb.takes_keys) verbs += " '2: :_files'";
    verbs += verb.takes_keys ? " '*: :@FUNCTION@_files_and_keys'; return ;;\n"
                             : " '*: :_files'; return ;;\n";
  }
  std::string specs;
  for (const CompletionFlag& flag : program.flags) {
    for (const std::string& spec : zsh_specs(flag))
      specs += "    " + spec + " \\\n";
  }
  return fill_in(
      std::string(kZshBegin) + "typeset -ga @FUNCTION@_all=(" + join_words(job_key_words(), " ") +
          ")\n" + kZshFunctions + "@FUNCTION@_first() {\n  compadd -- " + verb_names(program) +
          "\n  _files\n}\n@FUNCTION@() {\n" + "  (( CURRENT == 2 )) || case $words[2] in\n" +
          verbs + "  esac\n  _arguments -s \\\n" + specs + kZshEnd,
      program);
}

// --- fish ------------------------------------------------------------------------------------

constexpr const char* kFishBegin = R"(# fish completion of @PROGRAM@.
# For you: @PROGRAM@ --completion fish > ~/.config/fish/completions/@PROGRAM@.fish
function _@FUNCTION@_has_job
  string match -qr '\.ya?ml$' -- (commandline -opc)[2..]
end
function _@FUNCTION@_has_verb
  set -l words (commandline -opc)
  contains -- "$words[2]" $argv
end
function _@FUNCTION@_has_file
  test (count (commandline -opc)) -gt 2
end
)";

constexpr const char* kFishOffer = "' -a '(_@FUNCTION@_keys | string replace -r \\$ =)'\n";

/// Escapes text for single quotes.
std::string fish_text(std::string_view text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return escaped;
}

std::string fish_line(const std::string& condition, const CompletionFlag& flag) {
  std::string line = "complete -c @PROGRAM@ -n '" + condition + "' -l " + flag.name;
  if (flag.letter != '\0') line += std::string(" -s ") + flag.letter;
  if (flag.value == Value::required) line += takes_path(flag) ? " -r" : " -x";
  const std::string words =
      flag.takes_key ? "(_@FUNCTION@_keys)" : join_words(choices_of(flag), " ");
  if (!words.empty()) line += " -a '" + words + "'";
  return line + " -d '" + fish_text(flag.help) + "'\n";
}

std::string fish(const CompletionProgram& program) {
  const std::string begin = "complete -c @PROGRAM@ ";
  std::string lines = kFishBegin;
  lines += begin + "-n __fish_is_first_arg -a '" + verb_names(program) + "'\n";
  std::vector<std::string> names;
  for (const CompletionVerb& verb : with_flags(program)) {
    names.insert(names.end(), verb.names.begin(), verb.names.end());
    const std::string condition = "_@FUNCTION@_has_verb " + join_words(verb.names, " ");
    for (const CompletionFlag& flag : verb.flags)
      lines += fish_line(condition, flag);
    if (!verb.words.empty())
      lines += begin + "-n '" + condition + "' -a '" + join_words(verb.words, " ") + "'\n";
    if (verb.takes_keys)
      lines += begin + "-n '" + condition + "; and _@FUNCTION@_has_file" + kFishOffer;
  }
  const std::string of_jobs = "not _@FUNCTION@_has_verb " + join_words(names, " ");
  for (const CompletionFlag& flag : program.flags)
    lines += fish_line(of_jobs, flag);
  lines += "function _@FUNCTION@_keys\n  printf '%s\\n'";
  for (const JobKey& key : job_keys())
    lines += " " + std::string(key.path);
  lines += "\nend\n" + begin + "-f -n '" + of_jobs + "; and _@FUNCTION@_has_job" + kFishOffer;
  return fill_in(lines, program);
}

}  // namespace

std::string completion_script(const CompletionProgram& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  throw UsageError("there is no completion for " + shell + ". Give bash, zsh or fish.");
}

}  // namespace ddp
