#include "launcher/plan/hosts/host_list.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "launcher/plan/endpoint_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLongestName = 253;  // of a host in DNS
constexpr std::size_t kLongestUser = 64;
constexpr std::size_t kLongestZone = 32;
constexpr std::size_t kLongestShown = 100;  // bytes of the user's text in a message
constexpr int kMaxWorkersOfHost = 100000;

bool is_word(std::string_view text, std::size_t longest) {
  if (text.empty() || text.size() > longest || text.front() == '-') return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_ipv6(std::string_view text) {
  const std::size_t percent = text.find('%');
  const bool has_zone = percent != std::string_view::npos;
  if (has_zone && !is_word(text.substr(percent + 1), kLongestZone)) return false;
  return is_address(AF_INET6, text.substr(0, percent));
}

/// Makes a text printable and short.
std::string shown(std::string_view text) {
  std::string result(text.substr(0, kLongestShown));
  for (char& c : result)
    if (c < 0x20 || c > 0x7e) c = '?';
  return text.size() > kLongestShown ? result + "..." : result;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

class HostReader {
 public:
  /// Reads one host; `slots` is the text of its number of workers, or empty.
  void take(std::string_view word, std::string_view slots, const std::string& position) {
    const std::string head = position + shown(word) + ": ";
    const std::size_t at = word.find('@');
    const bool has_user = at != std::string_view::npos;
    if (has_user && !is_word(word.substr(0, at), kLongestUser))
      return complain(head + "no user's name before '@'. Write USER@HOST.");
    const std::string user(has_user ? word.substr(0, at + 1) : "");
    std::string_view left = has_user ? word.substr(at + 1) : word;
    Host host;
    if (left.starts_with('[')) {
      const std::size_t close = left.find(']');
      if (close == std::string_view::npos || !is_ipv6(left.substr(1, close - 1)))
        return complain(head + "no IPv6 address in brackets. Write [ADDRESS] or [ADDRESS]:N.");
      host.address = left.substr(1, close - 1);
      left.remove_prefix(close + 1);
    } else {
      const std::size_t colon = left.find(':');
      host.address = left.substr(0, colon);
      left.remove_prefix(std::min(colon, left.size()));
      if (left.find(':', 1) != std::string_view::npos)
        return complain(head + "write an IPv6 address in brackets, as [fe80::1] or [fe80::1]:4.");
      if (!is_word(host.address, kLongestName)) {
        return complain(head + "no host's name. It has letters, digits, '.', '_' and '-', and " +
                        "does not begin with '-'.");
      }
    }
    if (!left.empty() && !slots.empty())
      return complain(head + "the number of workers is given twice, by ':' and by slots=.");
    const std::string_view number = left.empty() ? slots : left.substr(1);
    if (!left.empty() || !slots.empty())
      host.workers = parse_whole<int>(number, 1, kMaxWorkersOfHost).value_or(0);
    if ((!left.empty() && left.front() != ':') || (host.workers && *host.workers == 0)) {
      return complain(head + "the number of workers is 1 to " + std::to_string(kMaxWorkersOfHost) +
                      ", as in HOST:4.");
    }
    host.login = user + host.address;
    add(std::move(host), head, position);
  }

  void complain(std::string problem) {
    if (problems_.size() >= kShownProblems) problem.clear();  // only counted
    problems_.push_back(std::move(problem));
  }

  /// `source`: the list or file, for messages.
  std::vector<Host> finish(const std::string& source) {
    if (hosts_.empty() && problems_.empty()) complain(source + ": names no host.");
    if (!problems_.empty()) throw UsageError(problems_);
    return std::move(hosts_);
  }

 private:
  void add(Host host, const std::string& head, const std::string& position) {
    const auto [known, is_new] = places_.emplace(lower(host.address), position);
    if (!is_new) {
      const std::string earlier =
          known->second.empty()
              ? ""
              : " (first in " + known->second.substr(0, known->second.size() - 2) + ")";
      return complain(head + "named twice" + earlier +
                      ". One agent runs on a host; write HOST:N for N workers.");
    }
    if (hosts_.size() == kMaxHosts)
      return complain(head + "more than " + std::to_string(kMaxHosts) + " hosts.");
    hosts_.push_back(std::move(host));
  }

  std::vector<Host> hosts_;
  std::map<std::string, std::string> places_;  // where each address stands
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<Host> parse_hosts(std::string_view list) {
  HostReader reader;
  const std::string kFlag = "--hosts ";
  while (!trim(list).empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = trim(list.substr(0, comma));
    if (word.empty()) {
      reader.complain("--hosts: nothing between two commas. Write HOST,HOST:N.");
    } else {
      reader.take(word, "", kFlag);
    }
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return reader.finish("--hosts");
}

std::vector<Host> parse_host_file(std::string_view text, const std::string& path) {
  HostReader reader;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string position = path + ":" + std::to_string(number) + ": ";
    const std::size_t gap = line.find_first_of(" \t");
    const std::string_view word = line.substr(0, gap);
    const std::string_view rest =
        gap == std::string_view::npos ? std::string_view() : trim(line.substr(gap));
    constexpr std::string_view kSlots = "slots=";
    if (rest.empty()) {
      reader.take(word, "", position);
    } else if (rest.starts_with(kSlots) && rest.size() > kSlots.size()) {
      reader.take(word, rest.substr(kSlots.size()), position);
    } else {
      reader.complain(position + shown(rest) +
                      ": not understood. Write HOST, HOST:4 or HOST slots=4.");
    }
  }
  return reader.finish(path);
}

}  // namespace ddp::launcher
