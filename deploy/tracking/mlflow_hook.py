"""Sends a run to MLflow: metrics.command: [python3, deploy/tracking/mlflow_hook.py]. Where to: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME."""

import json
import pathlib
import sys

import mlflow

ENDS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

for row in map(json.loads, sys.stdin):
    kind = row.pop("kind")
    if kind == "job" and not mlflow.active_run():
        note = pathlib.Path(row["run_dir"], "mlflow_run_id")  # a run that goes on is one run there, too
        run = mlflow.start_run(note.read_text() if note.exists() else None, run_name=row["name"])
        if not note.exists():
            note.write_text(run.info.run_id)
            keys = list(row["job"].items())
            for i in range(0, len(keys), 100):  # as many as a server takes at a time
                mlflow.log_params(dict(keys[i : i + 100]))
    elif kind == "end":
        mlflow.end_run(ENDS[row["state"]])
    elif kind != "job":
        mlflow.log_metrics({name: value for name, value in row.items() if value is not None}, step=row["step"])
