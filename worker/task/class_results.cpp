#include "worker/task/class_results.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <utility>

#include "common/text/json_text.h"

namespace ddp::worker {

namespace json = boost::json;

std::string to_json(const ClassResults& results,
                    const std::vector<std::string>& names,
                    std::int64_t step) {
  const std::int64_t side = results.classes + (results.has_background ? 1 : 0);
  json::array pairs;
  for (std::int64_t truth = 0; truth < side; ++truth) {
    for (std::int64_t answer = 0; answer < side; ++answer) {
      const std::int64_t count = results.counts.at(static_cast<std::size_t>(truth * side + answer));
      if (count != 0) pairs.push_back(json::array{truth, answer, count});
    }
  }
  json::object numbers;
  for (const auto& [name, values] : results.numbers) {
    json::array row;
    for (const double value : values)
      row.push_back(std::isfinite(value) ? json::value(value) : json::value(nullptr));
    numbers.emplace(name, std::move(row));
  }
  json::array texts;
  for (const std::string& name : names)
    texts.emplace_back(json_utf8(name));
  return json::serialize(json::object{{"step", step},
                                      {"classes", results.classes},
                                      {"names", std::move(texts)},
                                      {"background", results.has_background},
                                      {"numbers", std::move(numbers)},
                                      {"confusion", std::move(pairs)}}) +
         "\n";
}

}  // namespace ddp::worker
