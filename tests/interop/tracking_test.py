"""A run that goes on is one run in MLflow: its real client, which keeps runs in files here, gets them from deploy/tracking/mlflow_hook.py.

DDP_PYTHON_TRACKING names a Python with mlflow. Run by hand:
DDP_PYTHON_TRACKING=... DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/tracking_test.py
"""

import json
import os
import pathlib
import sys
import unittest

from processes import ProcessTest
from run_files import records

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("DDP_PYTHON_TRACKING", "")
JOB = """
name: job
data: {name: digits, batch: 64, train_size: 640, test_size: 64}
train: {log_every: 5}
"""
# What mlflow has of all runs, as JSON.
READ = """
import json, mlflow
client = mlflow.MlflowClient()
runs = []
for run in client.search_runs([experiment.experiment_id for experiment in client.search_experiments()]):
    history = {name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics}
    runs.append({"name": run.info.run_name, "status": run.info.status, "params": run.data.params, "history": history})
print(json.dumps(runs))
"""


class MLflow(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        self.environment |= {"MLFLOW_TRACKING_URI": (self.folder / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}

    def runs(self):
        return json.loads(self.run_program(PYTHON, "-c", READ).splitlines()[-1])

    def test_mlflow_has_the_values_of_a_resumed_run(self):
        command = f"metrics.command=[{PYTHON}, {ROOT}/deploy/tracking/mlflow_hook.py]"
        for epochs, launch in ((2, [self.bin / "ddp-worker"]), (3, [self.bin / "ddp-launch", "--nproc-per-node", 2])):
            text = self.run_program(*launch, "job.yaml", f"train.epochs={epochs}", command)
            self.assertNotIn("metrics.command", text)
        (run,) = self.runs()
        self.assertEqual((run["name"], run["status"]), ("job", "FINISHED"))
        self.assertEqual(run["params"]["optimizer.lr"], "0.05")
        for kind, name in (("step", "loss"), ("epoch", "train_loss"), ("epoch", "test_accuracy")):
            ours = [(record["step"], record[name]) for record in records(self.folder / "runs/job", kind)]
            self.assertGreater(len(ours), 2)
            self.assertEqual(sorted(map(tuple, run["history"][name])), ours)


if __name__ == "__main__":
    if not PYTHON:
        print("DDP_PYTHON_TRACKING names no Python with mlflow")
        sys.exit(77)
    unittest.main()
