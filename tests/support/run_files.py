"""What a run and its checkpoints hold, read back."""

import json
import struct


def records(run_dir, kind):
    """The lines of metrics.jsonl of that kind: step, epoch or evaluation."""
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def losses(run_dir):
    return [record["loss"] for record in records(run_dir, "step")]


def read_tensors(path):
    """Name to (dtype, shape, bytes) of a safetensors file."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    data = raw[8 + size :]
    return {
        name: (entry["dtype"], entry["shape"], data[entry["data_offsets"][0] : entry["data_offsets"][1]])
        for name, entry in header.items()
    }
