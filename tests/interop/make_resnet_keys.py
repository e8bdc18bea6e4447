"""Prints the names, kinds and shapes of torchvision's ResNets, as stored in tests/unit/resnet_keys.txt.

Run by hand, with torchvision 0.26: python3 tests/interop/make_resnet_keys.py > tests/unit/resnet_keys.txt
"""

import torchvision

for name in ("resnet18", "resnet34", "resnet50"):
    model = getattr(torchvision.models, name)()
    parameters = dict(model.named_parameters())
    # The order of parameters is also that of DDP's buckets.
    assert [key for key in model.state_dict() if key in parameters] == list(parameters)
    for key, tensor in model.state_dict().items():
        kind = "parameter" if key in parameters else "buffer"
        print(name, key, kind, "x".join(map(str, tensor.shape)) or "scalar")
