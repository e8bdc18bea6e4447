#include "worker/data/class_names.h"

#include <array>
#include <utility>

namespace ddp::worker {
namespace {

// Names in the order of their numbers, with one mark between two.
struct NameList {
  std::string_view set;
  char mark;
  std::string_view names;
};

constexpr std::array<NameList, 3> kNames{{
    {"fashion-mnist",
     ',',
     "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"},
    {"cifar10", ' ', "airplane automobile bird cat deer dog frog horse ship truck"},
    {"cifar100",
     ' ',
     "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
     "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach "
     "couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster "
     "house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree "
     "motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear "
     "pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road "
     "rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel "
     "streetcar sunflower sweet_pepper table tank telephone television tiger tractor train "
     "trout tulip turtle wardrobe whale willow_tree wolf woman worm"},
}};

}  // namespace

std::vector<std::string> published_classes(std::string_view set) {
  set = set.substr(0, set.find(' '));
  std::vector<std::string> classes;
  for (const NameList& known : kNames) {
    if (known.set != set) continue;
    for (std::string_view rest = known.names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(known.mark), rest.size());
      classes.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return classes;
}

std::string class_name(std::size_t number, const std::vector<std::string>& names) {
  return number < names.size() ? names[number] : std::to_string(number);
}

std::string class_name(std::size_t number, const DataFacts& data) {
  return class_name(number, data.class_names);
}

}  // namespace ddp::worker
