"""The files of deploy/ fit the command, the example service and one another."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from datetime import timedelta

import click
import pytest
import uvicorn

from holdfast.observability.metric_table import OLDEST_READY
from holdfast.worker.timing import WorkerTiming
from tests.deploy.deploy_files import (
    DEPLOY,
    ROOT,
    SERVICE_FOLDER,
    CommandLine,
    all_pods,
    command_lines,
    containers_of,
    docker_command,
    parse_holdfast,
    pod_of,
    read_compose,
    read_dockerfile,
    read_kubernetes,
    read_unit,
)

LINES = list(command_lines())
GUIDES = ROOT / "docs" / "guides"
WORKERS = [line for line in LINES if line.argv[:2] == ("holdfast", "work")]
FINAL_STAGE = [one for one in read_dockerfile() if one.name == "FROM"][-1]


@pytest.fixture
def service_modules(monkeypatch):
    """Make the modules of the example service importable."""
    monkeypatch.syspath_prepend(str(SERVICE_FOLDER))


# Command lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.place)
def test_a_command_line_is_accepted_by_its_program(line: CommandLine, service_modules):
    match line.argv:
        case ("holdfast", *arguments):
            context = parse_holdfast(arguments)
            if "app_path" in context.params:
                assert is_module(context.params["app_path"])
        case ("uvicorn", *arguments):
            assert is_module(uvicorn.main.make_context("uvicorn", list(arguments)).params["app"])
        case ("python", "-m", module, *_):
            assert importlib.util.find_spec(module) is not None
        case ("python", "-c", program):
            compile(program, line.place, "exec")
        case ("pg_isready", *_) | ("sh", "-c", _):
            pass
        case _:
            pytest.fail(f"an unknown program: {line.argv}")


def is_module(path: str) -> bool:
    """Whether ``module:name`` names a variable of a module of the example service."""
    module, _, name = path.partition(":")
    source = SERVICE_FOLDER / f"{module.replace('.', '/')}.py"
    return re.search(rf"(?m)^{name} = ", source.read_text("utf-8")) is not None


def test_every_way_to_deploy_has_a_worker():
    assert [line.place.partition(":")[0] for line in WORKERS] == [
        "holdfast-worker.service",
        "Dockerfile",
        "kubernetes.yaml",
    ]


# Stopping ---------------------------------------------------------------------------------------------------


def stop_times() -> dict[str, timedelta]:
    """How long each supervisor waits after SIGTERM, before it kills the worker."""
    return {
        "holdfast-worker.service": seconds(read_unit()["Service"]["TimeoutStopSec"]),
        "Dockerfile": seconds(read_compose()["services"]["worker"]["stop_grace_period"]),
        "kubernetes.yaml": seconds(all_pods()["orders-worker"]["terminationGracePeriodSeconds"]),
    }


def seconds(value: str | int) -> timedelta:
    return timedelta(seconds=int(str(value).removesuffix("s")))


@pytest.mark.parametrize("line", WORKERS, ids=lambda line: line.place)
def test_a_supervisor_waits_longer_than_the_worker_needs_to_stop(line: CommandLine):
    options = parse_holdfast(list(line.argv[1:])).params
    needed = options["drain"] + options["grace"] + timedelta(seconds=WorkerTiming().stop_seconds)
    assert stop_times()[line.place.partition(":")[0]] > needed


def test_a_supervisor_waits_longer_than_the_web_service_needs_to_stop():
    def graceful(argv: list[str]) -> timedelta:
        return seconds(uvicorn.main.make_context("uvicorn", argv[1:]).params["timeout_graceful_shutdown"])

    compose = read_compose()["services"]["service"]
    assert seconds(compose["stop_grace_period"]) > graceful(compose["command"])
    pod = all_pods()["orders"]
    [container] = pod["containers"]
    _, pause = container["lifecycle"]["preStop"]["exec"]["command"]
    assert seconds(pod["terminationGracePeriodSeconds"]) > graceful(container["command"]) + seconds(pause)


def test_systemd_signals_the_worker_only_and_survives_a_child_that_needs_too_much_memory():
    service = read_unit()["Service"]
    assert (service["KillMode"], service["KillSignal"]) == ("mixed", "SIGTERM")
    assert service["OOMPolicy"] == "continue"
    assert service["Restart"] == "always"


# The guides -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deploying", "upgrading", "backup"])
def test_the_commands_of_a_guide_exist(name: str):
    text = " ".join((GUIDES / f"{name}.md").read_text("utf-8").split())
    commands = re.findall(r"`holdfast ([a-z][^`]*)`", text)
    assert commands
    for command in commands:
        with contextlib.suppress(click.MissingParameter):  # in a sentence, a command may stand without its arguments
            parse_holdfast(shlex.split(command))


def test_the_guide_has_the_stop_times_of_the_files():
    text = (GUIDES / "deploying.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| (systemd|Docker|Kubernetes) \| `[A-Za-z_]+`.* \| (\d+) s \|$", text)
    assert [timedelta(seconds=int(number)) for _, number in rows] == list(stop_times().values())


# Secrets and rights -----------------------------------------------------------------------------------------


def test_no_file_has_a_secret():
    for path in DEPLOY.iterdir():
        text = path.read_text("utf-8")
        passwords = re.findall(r"://[^:/\s]+:([^@\s]+)@", text)
        assert {one for one in passwords if one != "..." and not one.startswith("${POSTGRES_PASSWORD:?")} == set(), path
    assert "EnvironmentFile" in read_unit()["Service"]
    assert not [one for one in read_dockerfile() if one.name in ("ENV", "ARG") and "HOLDFAST_URL" in one.text]


def test_the_urls_of_kubernetes_come_from_the_secret_and_only_the_migration_is_the_owner():
    keys = {
        name: {
            one["valueFrom"]["secretKeyRef"]["key"]
            for container in containers_of(pod)
            for one in container["env"]
            if one["name"] == "HOLDFAST_URL"
        }
        for name, pod in all_pods().items()
    }
    assert keys.pop("orders-migrate") == {"owner-url"}
    assert keys == {"orders-worker": {"url"}, "orders-metrics": {"url"}, "orders": {"url"}}


def test_no_container_runs_as_root_or_may_become_root():
    [user] = [one.text for one in read_dockerfile() if one.name == "USER"]
    number, _, group = user.partition(":")
    assert int(number) > 0
    assert int(group) > 0
    for pod in all_pods().values():
        assert pod["securityContext"]["runAsNonRoot"]
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (int(number), int(group))
        for container in containers_of(pod):
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for name in ("worker", "metrics", "service"):
        service = read_compose()["services"][name]
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)


# Consistency ------------------------------------------------------------------------------------------------


def test_the_image_is_slim_and_copies_what_exists():
    assert re.fullmatch(r"python:3\.\d+-slim", FINAL_STAGE.text)
    for one in read_dockerfile():
        if one.name == "COPY" and not one.text.startswith("--from"):
            assert [name for name in one.text.split()[:-1] if not (ROOT / name).exists()] == []


def test_probes_use_the_port_of_the_metrics():
    [container] = all_pods()["orders-worker"]["containers"]
    [port] = container["ports"]
    assert metrics_port(container["command"]) == port["containerPort"]
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    assert {container[name]["httpGet"]["port"] for name in paths} == {port["name"]}
    annotations = read_kubernetes()["Deployment", "orders-worker"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    health = " ".join(one.text for one in read_dockerfile() if one.name == "HEALTHCHECK")
    assert f"127.0.0.1:{metrics_port(docker_command())}/healthz" in health


def metrics_port(argv: list[str]) -> int:
    return int(argv[argv.index("--metrics") + 1].rpartition(":")[2])


def test_the_workers_wait_for_the_schema_and_are_scaled_by_the_age_of_the_oldest_job():
    objects = read_kubernetes()
    for name in ("orders-worker", "orders"):
        [wait] = pod_of(objects["Deployment", name])["initContainers"]
        assert wait["command"] == ["holdfast", "schema", "check"]
    scaled = objects["ScaledObject", "orders-worker"]["spec"]
    assert ("Deployment", scaled["scaleTargetRef"]["name"]) in objects
    [trigger] = scaled["triggers"]
    assert trigger["metadata"]["query"] == f'max({OLDEST_READY.name}{{queue="orders"}})'


def test_references_between_the_objects_exist():
    objects = read_kubernetes()
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"]
        for (kind, name), one in objects.items()
        if kind == "Deployment"
    }
    for name, one in labels.items():
        assert objects["Deployment", name]["spec"]["selector"]["matchLabels"] == one
    assert objects["Service", "orders"]["spec"]["selector"] == labels["orders"]
    assert objects["PodDisruptionBudget", "orders-worker"]["spec"]["selector"]["matchLabels"] == labels["orders-worker"]
    images = {container["image"] for pod in all_pods().values() for container in containers_of(pod)}
    assert len(images - {"postgres:18"}) == 1
    for pod in all_pods().values():
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        mounts = {mount["name"] for one in containers_of(pod) for mount in one.get("volumeMounts", ())}
        assert mounts == volumes


def test_compose_starts_the_worker_after_the_migration():
    services = read_compose()["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
    for name in ("worker", "metrics", "service"):
        assert services[name]["depends_on"] == {
            "schema": {"condition": "service_completed_successfully"},
            "tables": {"condition": "service_completed_successfully"},
        }


# The programs themselves, where they are installed --------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path):
    unit = tmp_path / "holdfast-worker.service"
    text = (DEPLOY / unit.name).read_text("utf-8")
    text = text.replace("/srv/orders/.venv/bin/holdfast", sys.executable).replace("/srv/orders", str(tmp_path))
    unit.write_text(text, encoding="utf-8")
    verified = run("systemd-analyze", "verify", "--man=no", str(unit))
    assert (verified.returncode, verified.stderr) == (0, "")
    security = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", str(unit))
    assert security.returncode == 0, security.stdout  # at most 3.0 of 10, "OK"


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_every_file_of_the_folder_is_named_on_its_page():
    page = (DEPLOY / "README.md").read_text("utf-8")
    assert [path.name for path in DEPLOY.iterdir() if path.name != "README.md" and f"({path.name})" not in page] == []
