"""Prints the names, kinds and shapes of the field package's detectors, as stored in tests/unit/yolo_keys.txt.

Run by hand, with ultralytics 8.4: python3 tests/interop/make_yolo_keys.py > tests/unit/yolo_keys.txt
"""

import os

os.environ["YOLO_OFFLINE"] = "true"

from ultralytics.nn.tasks import DetectionModel  # pylint: disable=wrong-import-position

for name in ("yolov5n", "yolov8n"):
    model = DetectionModel(f"{name}.yaml", nc=80, verbose=False)
    parameters = dict(model.named_parameters())
    # The order of parameters is also that of DDP's buckets.
    assert [key for key in model.state_dict() if key in parameters] == list(parameters)
    for key, tensor in model.state_dict().items():
        kind = "parameter" if key in parameters else "buffer"
        print(name, key, kind, "x".join(map(str, tensor.shape)) or "scalar")
