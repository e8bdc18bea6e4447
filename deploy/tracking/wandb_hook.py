"""Sends a run to Weights & Biases: metrics.command: [python3, deploy/tracking/wandb_hook.py]. Where to: WANDB_PROJECT, WANDB_MODE, WANDB_API_KEY."""

import hashlib
import json
import sys

import wandb

for row in map(json.loads, sys.stdin):
    kind = row.pop("kind")
    if kind == "job" and wandb.run is None:
        same = hashlib.sha256(row["run_dir"].encode()).hexdigest()[:16]  # a run that goes on is one run there, too
        wandb.init(id=same, resume="allow", name=row["name"], config=row["job"])
    elif kind == "end":
        wandb.finish(exit_code=row["exit_code"])
    elif kind != "job":
        wandb.log({name: value for name, value in row.items() if value is not None}, step=row["step"])
