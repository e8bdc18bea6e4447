// The augmentations of a test, as a job file names them.
#pragma once

#include <string>
#include <vector>

#include "worker/data/augment/augment.h"

namespace ddp::worker {

struct NamedAugment {
  std::string name;
  TextMap args;
};

inline std::vector<Augment> make_named(const std::vector<NamedAugment>& list,
                                       const DataFacts& data) {
  std::vector<Augment> augments;
  for (const NamedAugment& one : list)
    augments.push_back(built_in_augments().at(one.name)({Args("", one.args), data, {}}));
  return augments;
}

}  // namespace ddp::worker
