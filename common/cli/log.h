// Prints the programs' own lines. It takes text, so that only log.cpp sees spdlog.
#pragma once

#include <string>

namespace ddp::log {

enum class Level { debug, info, warning, error };

/// Sets the program's name, which starts every line, and the lowest level shown. Lines go to
/// stderr, whole, unbuffered.
void open(const std::string& program, Level lowest);

/// From now on lines go through std::cerr, for a program that has put a buffer of its own before a
/// terminal there.
void open_by_cerr();

/// "debug", "info", "warning" or "error" (any case, and torch's WARN); anything else is info.
Level parse_level(const std::string& text);

void debug(const std::string& text);
void info(const std::string& text);
void warning(const std::string& text);
void error(const std::string& text);

}  // namespace ddp::log
