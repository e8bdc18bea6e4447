"""Sends a run to Weights & Biases: metrics.command: [python3, deploy/tracking/wandb_hook.py]. Where to: WANDB_PROJECT, WANDB_MODE, WANDB_API_KEY."""

import json
import pathlib
import sys

import wandb

for row in map(json.loads, sys.stdin):
    kind = row.pop("kind")
    if kind == "job" and wandb.run is None:
        note = pathlib.Path(row["run_dir"], "wandb_run_id")  # a run that goes on is one run there, too
        run = wandb.init(id=note.read_text() if note.exists() else None, resume="allow", name=row["name"], config=row["job"])
        note.write_text(run.id)
        run.define_metric("*", step_metric="step")
    elif kind == "end":
        wandb.finish(exit_code=row["exit_code"])
    elif kind != "job":
        wandb.log({name: value for name, value in row.items() if value is not None})
