// What the classes of published sets are called. Their files hold numbers alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::worker {

/// Of "cifar10 train", by the set's name before the space: fashion-mnist, cifar10 and cifar100
/// (fine labels). Empty for other sets, whose classes are called by their numbers. Sources:
/// github.com/zalandoresearch/fashion-mnist, README "Labels"; batches.meta.txt and
/// fine_label_names.txt of the binary versions of www.cs.toronto.edu/~kriz/cifar.html.
std::vector<std::string> published_classes(std::string_view set);

}  // namespace ddp::worker
