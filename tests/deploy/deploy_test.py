"""The files of deploy/, checked as far as a machine without Kubernetes, Docker and systemd allows. Usage: deploy_test.py SUITE

A suite that cannot run here ends with 77 and says why.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from image import instructions

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
LAUNCH = os.environ["DDP_LAUNCH"]
# Starting again does not mend these.
FINAL_CODES = {2, 93, 96, 126, 127, 203}


def run(*command, cwd=None, **variables):
    return subprocess.run(
        list(map(str, command)), env={**os.environ, **variables}, cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip


class Readmes(unittest.TestCase):
    def test_every_way_to_run_has_a_short_page(self):
        for folder in (path for path in DEPLOY.iterdir() if path.is_dir()):
            lines = (folder / "README.md").read_text().splitlines()
            self.assertLessEqual(len(lines), 14, folder.name)

    def test_the_files_they_name_are_there(self):
        for page in DEPLOY.glob("*/README.md"):
            for path in re.findall(r"\b(?:deploy|configs)/[\w./@-]+\w", page.read_text()):
                self.assertTrue((ROOT / path).exists(), f"{page.parent.name}: {path}")

    def test_the_flags_they_name_are_there(self):
        known = set(re.findall(r"--[a-z-]+", run(LAUNCH, "--help").stdout))
        for page in DEPLOY.glob("*/README.md"):
            for line in re.findall(r"(?m)^ddp-launch (.*)$", page.read_text()):
                for flag in re.findall(r"(?<!\S)--[a-z-]+", line):
                    self.assertIn(flag, known, f"{page.parent.name}: {line}")


class Scripts(unittest.TestCase):
    def test_the_batch_script_is_sound(self):
        script = DEPLOY / "slurm/train.sbatch"
        self.assertEqual(run("bash", "-n", script).stderr, "")
        options = re.findall(r"(?m)^#SBATCH (--[a-z-]+)", script.read_text())
        self.assertEqual(options, ["--job-name", "--nodes", "--ntasks-per-node", "--time", "--requeue", "--open-mode", "--signal"])
        lines = script.read_text().splitlines()
        first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
        self.assertFalse([line for line in lines[first_command:] if line.startswith("#SBATCH")], "Slurm reads no further")


class Kubernetes(unittest.TestCase):
    def setUp(self):
        import yaml

        self.indexed = list(yaml.safe_load_all((DEPLOY / "kubernetes/indexed-job.yaml").read_text()))
        self.sets = list(yaml.safe_load_all((DEPLOY / "kubernetes/jobset.yaml").read_text()))

    def find(self, kind):
        (found,) = [document for document in self.indexed + self.sets if document["kind"] == kind]
        self.assertRegex(found["metadata"]["name"], r"\A[a-z]([a-z0-9-]*[a-z0-9])?\Z")
        return found

    def check_job(self, job, name_of_pod_0):
        """`job` is the spec of a Job."""
        self.assertEqual(job["completionMode"], "Indexed")
        self.assertEqual(job["completions"], job["parallelism"])
        pod = job["template"]["spec"]
        self.assertEqual(pod["restartPolicy"], "Never")
        (agent,) = pod["containers"]
        words = agent["command"]
        self.assertTrue(all(isinstance(word, str) for word in words), words)
        self.assertEqual(words[words.index("--nnodes") + 1], str(job["completions"]))
        self.assertEqual(words[words.index("--master-addr") + 1], name_of_pod_0)
        volumes = {volume["name"] for volume in pod["volumes"]}
        self.assertEqual({mount["name"] for mount in agent["volumeMounts"]}, volumes)
        self.assertIn("/dev/shm", [mount["mountPath"] for mount in agent["volumeMounts"]])
        (token,) = agent["env"]
        self.assertEqual((token["name"], token["valueFrom"]["secretKeyRef"]["name"]), ("DDP_TOKEN", "mnist"))
        self.assertRegex(agent["image"], r":[\w.-]+\Z", "an image has a tag")
        return pod, agent

    def test_the_indexed_job_finds_its_first_pod(self):
        self.assertEqual(self.find("Job")["apiVersion"], "batch/v1")
        job, service = self.find("Job"), self.find("Service")
        name = job["metadata"]["name"]
        pod, agent = self.check_job(job["spec"], f"{name}-0.{service['metadata']['name']}")
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertTrue(service["spec"]["publishNotReadyAddresses"])
        self.assertEqual(service["spec"]["selector"], {"batch.kubernetes.io/job-name": name})
        self.assertEqual(agent["ports"][0]["containerPort"], 29500)

    def test_the_job_set_finds_its_first_pod(self):
        job_set = self.find("JobSet")
        self.assertEqual(job_set["apiVersion"], "jobset.x-k8s.io/v1alpha2")
        self.assertTrue(job_set["spec"]["network"]["enableDNSHostnames"])
        (node,) = job_set["spec"]["replicatedJobs"]
        self.assertEqual(node["replicas"], 1)
        name = job_set["metadata"]["name"]
        self.check_job(node["template"]["spec"], f"{name}-{node['name']}-0-0.{name}")

    def test_codes_that_a_new_start_does_not_mend_fail_the_job(self):
        rules = self.find("Job")["spec"]["podFailurePolicy"]["rules"]
        (rule,) = [rule for rule in rules if rule["action"] == "FailJob"]
        self.assertEqual(rule["onExitCodes"]["operator"], "In")
        self.assertEqual(set(rule["onExitCodes"]["values"]), FINAL_CODES)
        self.assertEqual(rule["onExitCodes"]["containerName"], self.find("Job")["spec"]["template"]["spec"]["containers"][0]["name"])

    def test_the_job_file_and_the_flags_are_accepted(self):
        agent = self.find("Job")["spec"]["template"]["spec"]["containers"][0]
        ((name, text),) = self.find("ConfigMap")["data"].items()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, name)
            file.write_text(text)
            words = [word for word in agent["command"][1:-1] if word != "gpu" and word != "--nproc-per-node"]
            shown = run(LAUNCH, "--explain", "launch.node_rank", *words, file, JOB_COMPLETION_INDEX="1")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"value +1\n +from +JOB_COMPLETION_INDEX")


class Docker(unittest.TestCase):
    def setUp(self):
        self.files = {path.name: instructions(path) for path in DEPLOY.glob("docker/*Dockerfile")}
        self.assertEqual(set(self.files), {"launcher.Dockerfile", "worker.Dockerfile"})

    def test_copied_files_of_the_launcher_image_configure_and_install(self):
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            for _, rest in (line for line in self.files["launcher.Dockerfile"] if line[0] == "COPY" and "--from" not in line[1]):
                *sources, target = rest.split()
                for source in sources:
                    copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy2
                    place = here / target / source if target == "./" else here / target
                    copy(ROOT / source, place)
            done = run("cmake", "--preset", "release", "-DDDP_TESTS=OFF", "-DDDP_BUILD_WORKER=OFF", cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            installs = (here / "build/release/cmake_install.cmake").read_text()
            for path in re.findall(rf'"({re.escape(folder)}/(?!build/)[^"]*)"', installs):
                self.assertTrue(pathlib.Path(path).exists(), path)

    def test_images_have_tags_and_their_entry_is_no_shell(self):
        for name, lines in self.files.items():
            stages = {rest.split(" AS ")[1] for word, rest in lines if word == "FROM" and " AS " in rest}
            for word, rest in lines:
                self.assertRegex(word, r"\A(FROM|ARG|RUN|COPY|WORKDIR|ENV|USER|ENTRYPOINT|CMD)\Z", name)
                if word == "FROM" and rest.split()[0] not in stages:
                    self.assertRegex(rest, r"\A(scratch\Z|\S+:(?!latest)\S+)", name)
                if word in ("ENTRYPOINT", "CMD"):
                    self.assertRegex(rest, r"\A\[.*\]\Z", f"{name}: a shell would be process 1")
                if stage := re.search(r"--from=(\S+)", rest):
                    self.assertIn(stage[1], stages, name)

    def test_torch_is_the_first_of_the_releases(self):
        version = re.search(r"(?m)^\d\S*", (ROOT / "cmake/torch_versions.txt").read_text())[0]
        lines = self.files["worker.Dockerfile"]
        self.assertEqual(lines[0], ["ARG", f"TORCH={version}"])
        for word, rest in lines:
            if word == "RUN" and "torch" in rest:
                self.assertIn(" torch==$TORCH", rest)
        # Each stage that names it has asked for it.
        for stage in re.split(r"(?m)^FROM ", "\n".join(" ".join(line) for line in lines))[1:]:
            self.assertEqual("$TORCH" in stage, "\nARG TORCH\n" in stage, stage)


class Systemd(unittest.TestCase):
    def setUp(self):
        self.unit = (DEPLOY / "systemd/ddp-launch@.service").read_text()

    def verify(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "ddp-launch@.service")
            path.write_text(text.replace("/usr/local/bin/ddp-launch", LAUNCH))
            return run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"{folder}/ddp-launch@digits.service")

    def test_systemd_accepts_the_unit(self):
        done = self.verify(self.unit)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_systemd_would_refuse_a_bad_one(self):
        self.assertNotEqual(self.verify(self.unit.replace("KillMode=mixed", "KillMode=some")).stderr, "")

    def test_codes_that_a_new_start_does_not_mend_end_it(self):
        codes = re.search(r"(?m)^RestartPreventExitStatus=(.*)$", self.unit)[1]
        self.assertEqual(set(map(int, codes.split())), FINAL_CODES)


class Package(unittest.TestCase):
    """The component `launcher`, as a wheel, a tarball or a Debian package takes it."""

    FILES = {
        "bin/ddp-launch", "include/ddp_progress.h", "share/bash-completion/completions/ddp-launch", "share/ddp/configs/job.schema.json",
        "share/ddp/ddp_progress.py", "share/doc/ddp-launch/CHANGELOG.md", "share/doc/ddp-launch/README.md",
        "share/doc/ddp-launch/THIRD_PARTY.md", "share/fish/vendor_completions.d/ddp-launch.fish", "share/man/man1/ddp-launch.1",
        "share/zsh/site-functions/_ddp-launch",
    }  # fmt: skip

    def setUp(self):
        self.build = pathlib.Path(LAUNCH).parent
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def files_below(self, root):
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    def check_files(self, prefix):
        """And the notices of what is in the program."""
        doc = "share/doc/ddp-launch/"
        rows = [row for row in json.loads((ROOT / "cmake/third_party.json").read_text()) if row["in"].get("ddp-launch", "shared") != "shared"]
        notices = {f"{doc}copyright"} | {f"{doc}licenses/{row['package']}" for row in rows}
        notices |= {f"{doc}licenses/common-licenses/{text}" for row in rows for text in row["texts"]}
        self.assertEqual(self.files_below(prefix), self.FILES | notices)
        copyright = (prefix / doc / "copyright").read_text()
        self.assertIn("The files of this project have no licence", copyright)
        for row in rows:
            self.assertIn(f"{row['name']}: {row['licence']}, licenses/{row['package']}\n", copyright)
            text = pathlib.Path("/usr/share/doc", row["package"], "copyright").read_bytes()
            self.assertEqual((prefix / doc / "licenses" / row["package"]).read_bytes(), text)
        self.assertIn("Boost Software License", (prefix / doc / "licenses/libboost1.81-dev").read_text())

    def test_the_component_has_what_the_launcher_needs(self):
        done = run("cmake", "--install", self.build, "--component", "launcher", "--prefix", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_files(self.folder)

    def make_package(self, name):
        out = self.folder / name
        done = run("cpack", "--config", self.build / "CPackConfig.cmake", "-B", out, SOURCE_DATE_EPOCH="1700000000")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (package,) = out.glob("*.deb")
        return package

    def test_the_debian_package_is_the_same_each_time_and_runs_unpacked(self):
        one, other = self.make_package("one"), self.make_package("other")
        self.assertRegex(one.name, r"\Addp-launch_\d+\.\d+\.\d+_(amd64|arm64)\.deb\Z")
        self.assertEqual(one.read_bytes(), other.read_bytes())
        root = self.folder / "root"
        self.assertEqual(run("dpkg-deb", "--extract", one, root).returncode, 0)
        self.check_files(root / "usr")
        self.assertEqual(run(root / "usr/bin/ddp-launch", "--version").returncode, 0)
        self.assertNotIn("Depends", run("dpkg-deb", "--info", one).stdout)


def cannot_run(suite):
    if suite == "Systemd" and not shutil.which("systemd-analyze"):
        return "systemd-analyze is not installed"
    if suite == "Kubernetes":
        try:
            import yaml  # noqa: F401
        except ImportError:
            debian = "/usr/bin/python3"  # its package python3-yaml is there, whatever Python comes first on the PATH
            if os.path.exists(debian) and not os.path.samefile(debian, sys.executable):
                os.execv(debian, [debian, "-B", *sys.argv])
            return "this Python has no yaml (Debian: python3-yaml)"
    return ""


if __name__ == "__main__":
    if why := cannot_run(sys.argv[1]):
        print(why)
        sys.exit(77)
    unittest.main(verbosity=2)
