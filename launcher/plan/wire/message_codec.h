// The messages between agents as JSON text, one frame each. Pure.
// Promises: whatever bytes come, a decoder gives a whole message or nothing: known types only,
// every field there, of its type and in its range, depth at most 16; unknown fields are ignored.
// No number is larger than a job may have it, and no sum of a few overflows. What a console is
// shown of it (names, lines, reports) is free of what moves a terminal.
// Whatever a worker wrote, an encoder gives valid JSON of at most kLongestFrame bytes: bytes that
// are not UTF-8 become U+FFFD, and of too much text the oldest goes first.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
std::string encode(const Refusal& refusal);
std::string encode(const NodeCommand& command);
std::string encode(const NodeEvent& event);

/// Of another version only `protocol` and `version` are read: the rest may be anything.
std::optional<Hello> decode_hello(std::string_view text);
/// A Refusal is the same in every version.
std::optional<Answer> decode_answer(std::string_view text);
std::optional<NodeCommand> decode_command(std::string_view text);
std::optional<NodeEvent> decode_event(std::string_view text);

inline constexpr std::size_t kLongestLine = 4 << 10;      // of a worker's output in a message
inline constexpr std::size_t kLongestEndText = 64 << 10;  // each one of the verdict
inline constexpr std::size_t kLongestText = 16 << 10;     // of any other text
inline constexpr std::size_t kLongestName = 256;          // of a host, a program, a version

}  // namespace ddp::launcher
