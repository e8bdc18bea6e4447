// Manual pages in roff (man(7)), with the parts common to both programs: the keys of a job file,
// from the table that checks them, and exit codes. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddp::roff {

/// Text to be printed as it is: a hyphen becomes a minus, which can be copied; no line begins with
/// a request.
std::string plain(std::string_view text);
std::string bold(std::string_view text);
/// A placeholder for the reader's value.
std::string slanted(std::string_view text);

/// The head of a program's page, and its name with a short description.
std::string title(std::string_view program, std::string_view what);
/// `name` is quoted where it has blanks.
std::string section(std::string_view name);
std::string subsection(std::string_view name);
/// A term, and what it means; both are roff already.
std::string item(const std::string& term, const std::string& text);

/// Every key of a job file with its default, its help and its choices, section by section.
std::string job_keys_text();
/// The meaning of each of our own codes, and of a signal's code.
std::string exit_codes_text(std::span<const int> codes);

}  // namespace ddp::roff
