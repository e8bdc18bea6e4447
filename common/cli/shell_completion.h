// Makes scripts by which a shell completes the words of a program: its flags with their choices,
// its verbs, and the keys of a job after a job file. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddp {

/// The help text of --completion.
inline constexpr const char* kCompletionHelp =
    "print what makes that shell complete flags, verbs and job keys; its first lines say where it "
    "goes";

struct CompletionFlag {
  enum class Value { none, optional, required };  // optional: only after "="

  std::string name;  // "tee"
  char letter = '\0';
  std::string help{};
  Value value = Value::none;
  std::string placeholder{};  // of its value: "FILE" and "DIR" are paths, "auto|off" two choices
  bool takes_key = false;     // its value is a job key
};

struct CompletionVerb {
  std::vector<std::string> names;       // the first is offered
  std::vector<CompletionFlag> flags{};  // empty: those of the program
  std::vector<std::string> words{};     // that may follow it, besides files
  bool takes_keys = false;              // keys of a job, after its first file
};

struct CompletionProgram {
  std::string name;
  std::vector<CompletionFlag> flags{};
  std::vector<CompletionVerb> verbs{};
};

/// `shell`: bash, zsh or fish. Errors: UsageError for another one.
std::string completion_script(const CompletionProgram& program, const std::string& shell);

}  // namespace ddp
