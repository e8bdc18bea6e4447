// Manual pages in roff (man(7)), and the parts that those of both programs have: the keys of a job
// file, from the table that checks them, and exit codes. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddp::roff {

/// Text that is printed as it is: a hyphen is a minus, which can be copied; no line begins with a
/// request.
std::string plain(std::string_view text);
std::string bold(std::string_view text);
/// What the reader puts in.
std::string slanted(std::string_view text);

/// The head of the page of a program, and its name with what it does in a few words.
std::string title(std::string_view program, std::string_view what);
/// `name` is quoted where it has blanks.
std::string section(std::string_view name);
std::string subsection(std::string_view name);
/// A term, and what it means; both are roff already.
std::string item(const std::string& term, const std::string& text);

/// Every key of a job file with its default, its help and its choices, section by section.
std::string job_keys_text();
/// What each of our own codes says, and that of a signal.
std::string exit_codes_text(std::span<const int> codes);

}  // namespace ddp::roff
