// /metrics: the job in the text format of Prometheus, version 0.0.4. Units: seconds and bytes, as
// Prometheus' naming rules require. Pure.
#pragma once

#include <string>

#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

std::string prometheus_text(const JobView& job);

}  // namespace ddp::launcher
