"""The files of deploy/ as values: their documents, and every command line in them."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from holdfast.cli.root import root

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SERVICE_FOLDER = ROOT / "examples" / "service"


class CommandLine(NamedTuple):
    """A command that a file of deploy/ runs."""

    place: str
    argv: tuple[str, ...]


class Instruction(NamedTuple):
    """An instruction of a Dockerfile, with its continued lines joined."""

    name: str
    text: str


def read_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=True)  # strict: no key stands twice
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((DEPLOY / "holdfast-worker.service").read_text("utf-8"))
    return unit


def read_dockerfile() -> list[Instruction]:
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8")).replace("\\\n", " ")
    return [Instruction(*line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def read_compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def read_kubernetes() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the objects by kind and name."""
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))
    objects = {(one["kind"], one["metadata"]["name"]): one for one in documents}
    assert len(objects) == len(documents)
    return objects


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


def containers_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def all_pods() -> dict[str, dict[str, Any]]:
    return {name: pod_of(one) for (_, name), one in read_kubernetes().items() if "template" in one["spec"]}


def docker_command() -> list[str]:
    [command] = [one.text for one in read_dockerfile() if one.name == "CMD"]
    return json.loads(command)


def docker_healthcheck() -> list[str]:
    [check] = [one.text for one in read_dockerfile() if one.name == "HEALTHCHECK"]
    return json.loads(check.partition(" CMD ")[2])


def command_lines() -> Iterator[CommandLine]:
    """Every command of every file. A path before the program is removed."""
    start = shlex.split(read_unit()["Service"]["ExecStart"])
    yield CommandLine("holdfast-worker.service", (Path(start[0]).name, *start[1:]))
    yield CommandLine("Dockerfile", tuple(docker_command()))
    yield CommandLine("Dockerfile: HEALTHCHECK", tuple(docker_healthcheck()))
    for name, service in read_compose()["services"].items():
        if "command" in service:
            yield CommandLine(f"compose.yaml: {name}", tuple(service["command"]))
        if "healthcheck" in service:
            assert service["healthcheck"]["test"][0] == "CMD"
            yield CommandLine(f"compose.yaml: healthcheck of {name}", tuple(service["healthcheck"]["test"][1:]))
    for name, pod in all_pods().items():
        for container in containers_of(pod):
            yield CommandLine(f"kubernetes.yaml: {container['name']} of {name}", tuple(container["command"]))


def parse_holdfast(arguments: list[str]) -> click.Context:
    """Parse the arguments of ``holdfast`` as the command does, and run nothing."""
    context = root.make_context("holdfast", arguments)
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context
