// What makes a shell complete the words of a program: its flags with their choices, its verbs, and
// the keys of a job behind a job file. Scripts from a table of words. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddp {

struct CompletedFlag {
  enum class Value { none, optional, required };  // optional: behind "=" alone

  std::string name;  // "tee"
  char letter = '\0';
  std::string help{};
  Value value = Value::none;
  std::string placeholder{};           // of its value: "FILE"
  std::vector<std::string> choices{};  // of its value
  bool takes_path = false;
  bool takes_key = false;  // of a job
};

struct CompletedVerb {
  std::string name;
  std::vector<CompletedFlag> flags{};  // empty: it takes those of the program
  std::vector<std::string> words{};    // that may follow it, beside files
  bool takes_keys = false;             // of a job, behind its first file
};

struct CompletedProgram {
  std::string name;
  std::vector<CompletedFlag> flags{};
  std::vector<CompletedVerb> verbs{};
};

/// The words of "auto|plain|off" where all of them are to be typed, and not a stand-in as N or DIR.
std::vector<std::string> choices_of(std::string placeholder);

/// `shell`: bash, zsh or fish. Errors: UsageError for another one.
std::string completion_script(const CompletedProgram& program, const std::string& shell);

}  // namespace ddp
