// Program arguments and prefixes are templates, as under torchrun: ${NAME} and $NAME become the
// value, $$ becomes $, and an unknown NAME stays as it is (Python's
// string.Template.safe_substitute).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ddp::launcher {

using SubstitutionValues = std::map<std::string, std::string, std::less<>>;

std::string substitute(std::string_view text, const SubstitutionValues& values);

/// Fills a program's argument, whose only name is local_rank.
std::string substitute(std::string_view text, int local_rank);

}  // namespace ddp::launcher
