#include "common/progress/node_line.h"

#include "common/text/join_words.h"

namespace ddp {
namespace {

/// "cuda:0 cuda:1"; repeated devices are shown once.
std::string join_devices(const std::vector<std::string>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (i > 0 && devices[i] == devices[i - 1]) continue;
    add_word(text, devices[i], " ");
  }
  return text;
}

}  // namespace

std::string describe_node(const NodeRanks& node) {
  const int last = node.first_rank + static_cast<int>(node.devices.size()) - 1;
  std::string text = "node " + std::to_string(node.node_rank) + " (" + node.host + "): ";
  text += last > node.first_rank
              ? "ranks " + std::to_string(node.first_rank) + "-" + std::to_string(last)
              : "rank " + std::to_string(node.first_rank);
  const std::string devices = join_devices(node.devices);
  text += (devices.find(' ') == std::string::npos ? ", device " : ", devices ") + devices;
  if (!node.logs.empty()) text += ", logs " + node.logs;
  return text;
}

}  // namespace ddp
