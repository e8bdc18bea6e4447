// The names of classes, also of published sets whose files hold only numbers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/source.h"

namespace ddp::worker {

/// The class names of "cifar10 train", by the set's name before the space. Empty for sets whose
/// classes are named by their numbers.
std::vector<std::string> published_classes(std::string_view set);

/// The class's name, or the number itself if it has no name.
std::string class_name(std::size_t number, const std::vector<std::string>& names);
std::string class_name(std::size_t number, const DataFacts& data);

}  // namespace ddp::worker
