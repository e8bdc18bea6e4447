#include "common/node/visible_gpus.h"

#include <algorithm>
#include <sstream>

#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp {
namespace {

bool is_identifier(const std::string& entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

/// The index that an entry begins with: CUDA reads "1gpu2" as 1. -1: none.
int leading_index(std::string_view entry) {
  if (entry.starts_with('+')) entry.remove_prefix(1);
  return take_number<int>(entry).value_or(-1);
}

/// The GPU whose UUID begins with `entry`. -1: none, or several.
int index_of_uuid(const std::vector<Gpu>& gpus, const std::string& entry) {
  int found = -1;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].uuid.empty() || !gpus[i].uuid.starts_with(entry)) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

bool knows_uuids(const std::vector<Gpu>& gpus) {
  return std::ranges::any_of(gpus, [](const Gpu& gpu) { return !gpu.uuid.empty(); });
}

/// Nothing when the entry names no GPU of this node.
std::optional<VisibleGpu> find(const std::vector<Gpu>& gpus, const std::string& entry) {
  if (is_identifier(entry)) {
    const int index = index_of_uuid(gpus, entry);
    // Parts of GPUs are not in the driver's list, and not every container shows UUIDs.
    const bool unknown = entry.starts_with("MIG-") || !knows_uuids(gpus);
    if (index < 0 && (!unknown || gpus.empty())) return {};
    return VisibleGpu{entry, index};
  }
  const int index = leading_index(entry);
  if (index < 0 || static_cast<std::size_t>(index) >= gpus.size()) return {};
  return VisibleGpu{entry, index};
}

bool is_repeated(const std::vector<VisibleGpu>& seen, const VisibleGpu& next) {
  return std::ranges::any_of(seen, [&](const VisibleGpu& gpu) {
    return next.index >= 0 ? gpu.index == next.index : gpu.entry == next.entry;
  });
}

}  // namespace

VisibleGpus visible_gpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible) {
  VisibleGpus result;
  if (!visible) {
    for (std::size_t i = 0; i < gpus.size(); ++i)
      result.gpus.push_back({std::to_string(i), static_cast<int>(i)});
    return result;
  }
  std::istringstream entries(*visible);
  for (std::string part; std::getline(entries, part, ',');) {
    const std::string entry(trim(part));
    const std::optional<VisibleGpu> gpu = find(gpus, entry);
    if (!gpu) {
      result.refused = entry;
      break;
    }
    if (is_repeated(result.gpus, *gpu)) return {{}, entry};
    result.gpus.push_back(*gpu);
  }
  return result;
}

std::optional<Gpu> read_gpu(std::string_view information) {
  Gpu gpu;
  gpu.minor = -1;
  std::istringstream lines{std::string(information)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name = trim(std::string_view(line).substr(0, colon));
    const std::string value(trim(std::string_view(line).substr(colon + 1)));
    if (name == "Model") gpu.model = value;
    if (name == "GPU UUID") gpu.uuid = value;
    if (name == "Bus Location") gpu.pci = value;
    if (name == "Device Minor") gpu.minor = leading_index(value);
  }
  if (gpu.minor < 0) return {};
  return gpu;
}

std::string read_driver_version(std::string_view text) {
  std::istringstream words(std::string(text.substr(0, text.find('\n'))));
  for (std::string word; words >> word;) {
    const bool is_version = word.find_first_not_of("0123456789.") == std::string::npos &&
                            word.find('.') != std::string::npos;
    if (is_version) return word;
  }
  return "";
}

std::string pci_address(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  return text.size() == 16 && text.starts_with("0000") ? text.substr(4) : text;
}

std::string list_gpus(const std::vector<Gpu>& gpus) {
  std::string text;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(i);
    const std::string& model =
        gpus[i].model.empty() ? "/dev/nvidia" + std::to_string(gpus[i].minor) : gpus[i].model;
    text += " (" + model + (gpus[i].pci.empty() ? "" : ", " + gpus[i].pci) + ")";
  }
  return text.empty() ? "none" : text;
}

}  // namespace ddp
