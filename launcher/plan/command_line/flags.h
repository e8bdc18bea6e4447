// Every flag of ddp-launch, once. Splitter, parser, --help, PET_* variables and launch.* keys are
// derived from this table. All flags of torchrun 2.11 to 2.15 and of torch.distributed.launch are
// here.
#pragma once

#include <span>
#include <string_view>

namespace ddp::launcher {

enum class FlagValue {
  none,      // a switch
  text,      // passed on as a quoted text
  plain,     // passed on unquoted: numbers, words, durations
  seconds,   // a bare number means seconds, as in torch
  list,      // words with commas between them
  texts,     // a quoted text; each time that the flag is given adds one
  optional,  // with '=': a word; alone: `default_text`
};

enum class FlagSupport {
  full,
  ignored,  // accepted, without effect here: one warning
};

struct Flag {
  std::string_view name;  // "nproc-per-node": the spelling with dashes
  char letter = '\0';
  FlagValue value = FlagValue::text;
  FlagSupport support = FlagSupport::full;
  std::string_view variable = {};      // PET_*, or empty
  std::string_view fallback = {};      // a variable that counts where `variable` is not set
  std::string_view key = {};           // job key that it sets; empty: none
  std::string_view default_text = {};  // a value that asks for nothing; optional: what the
                                       // flag means alone
  bool may_be_empty = false;           // empty is torchrun's default, and ours
  std::string_view switched = "true";  // of a switch: its key's value
  std::string_view placeholder = {};   // in --help, before the choices of the key
  std::string_view help = {};          // without default; ignored: why without effect
  std::string_view group = {};         // heading in --help before this flag
};

std::span<const Flag> flags();

/// The flag of that name, with dashes or underscores; null: none.
const Flag* find_flag(std::string_view name);

}  // namespace ddp::launcher
