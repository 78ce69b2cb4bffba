"""``holdfast keys``: the file of signing keys."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast import key_file
from holdfast.cli import json_values
from holdfast.cli.command import Group
from holdfast.cli.output import Column
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.wire.signing import KeyRing, SigningKey


@click.group(cls=Group)
def keys() -> None:
    """Rotate and list the keys that sign jobs.

    The file is signing_key_file of the settings. No command shows a secret.
    """


@keys.command("rotate")
@click.option("--queue", metavar="NAME", help="A key for the jobs of this queue only.")
@click.option("--json", "as_json", is_flag=True, help="JSON: id, created_at and queue of the new key.")
@pass_session
def rotate(session: Session, *, queue: str | None, as_json: bool) -> None:
    """Add a key, which signs new jobs from now on.

    The older keys stay in the file, and verify the jobs that they have signed. The first rotation creates the file.
    """
    path = _path(session)
    new = key_file.rotate(path, queue=queue)
    if as_json:
        session.output.print_json(_to_json(new))
        return
    session.output.print_line(f"{new.id} signs {'all queues' if queue is None else f'the queue {queue}'} from now on")
    session.output.print_note(f"copy {path} to the other machines: until then their workers release jobs of this key")


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON: id, created_at and queue of each key, the newest last.")
@pass_session
def list_(session: Session, *, as_json: bool) -> None:
    """List the ids and dates of the keys, the newest last."""
    ring = key_file.read_ring(_path(session))
    if as_json:
        session.output.print_json({"items": [_to_json(key) for key in ring.keys]})
        return
    session.output.print_table(
        [Column(title="KEY"), Column(title="CREATED"), Column(title="QUEUE"), Column(title="SIGNS")],
        [
            (key.id, session.output.instant(key.created_at), key.queue or "all", "yes" if _signs(ring, key) else "no")
            for key in ring.keys
        ],
    )


def _signs(ring: KeyRing, key: SigningKey) -> bool:
    """Whether the key is the newest one of its queue, or of all queues."""
    return [one for one in ring.keys if one.queue == key.queue][-1] is key


def _path(session: Session) -> Path:
    path = session.settings.signing_key_file
    if path is None:
        ways = "set HOLDFAST_SIGNING_KEY_FILE, or write signing_key_file into holdfast.toml"
        raise CommandFailed(ExitCode.USAGE, f"no key file: {ways}")
    return Path(path)


def _to_json(key: SigningKey) -> dict[str, object]:
    return {"id": key.id, "created_at": json_values.instant(key.created_at), "queue": key.queue}
