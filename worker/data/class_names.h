// What classes are called; those of published sets, too, whose files hold numbers alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/source.h"

namespace ddp::worker {

/// Of "cifar10 train", by the set's name before the space: fashion-mnist, cifar10 and cifar100
/// (fine labels). Empty for other sets, whose classes are called by their numbers. Sources:
/// github.com/zalandoresearch/fashion-mnist, README "Labels"; batches.meta.txt and
/// fine_label_names.txt of the binary versions of www.cs.toronto.edu/~kriz/cifar.html.
std::vector<std::string> published_classes(std::string_view set);

/// The number itself where it has no name.
std::string class_name(std::size_t number, const std::vector<std::string>& names);
std::string class_name(std::size_t number, const DataFacts& data);

}  // namespace ddp::worker
