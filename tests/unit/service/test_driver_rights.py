"""What a service decides about each verb of a driver. Nothing is allowed by default: a new verb fails here first."""

import msgspec
import pytest

from holdfast.drivers.http.protocol import VERBS, Group, group_of, is_repeatable
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord
from holdfast.service.auth.principal import Principal
from holdfast.service.driver.rights import check_rights
from holdfast.service.problems import Problem
from holdfast.webhooks.delivery import QUEUE

NAMING = {
    "queue": QUEUE,
    "queues": [QUEUE],
    "where": JobFilter(queue=QUEUE),
    "jobs": [JobRecord(id="j", type="t", queue=QUEUE, payload=b"", created_at=1)],
}

DECIDED = {
    Group.CALLS: {
        True: {
            *(
                "any_open",
                "cancel",
                "configure",
                "counts",
                "diagnose",
                "domains",
                "enqueue",
                "find",
                "inspect",
                "ledger",
            ),
            *(
                "ledger_end",
                "ledger_marks",
                "ledger_tail",
                "read",
                "read_tuples",
                "reap",
                "reserve",
                "scan",
                "settings",
            ),
            *("spaces", "trim", "wait", "wait_for_cancel"),
        },
        False: {"write"},
    },
    Group.LEASES: {True: {"extend", "settle"}},
    Group.ADMIN: {True: {"remove_space"}, False: {"forget_domain", "purge", "requeue", "resume"}},
}


def request_of(verb):
    """A request of this verb that names a queue of the system in every field that can."""
    needed = {field.encode_name: None for field in msgspec.structs.fields(VERBS[verb]) if field.required}
    naming = {name: value for name, value in NAMING.items() if name in VERBS[verb].__struct_fields__}
    return VERBS[verb](**{**needed, **naming})


def test_somebody_has_decided_for_every_verb_who_may_call_it_and_whether_it_is_sent_again():
    decided = {verb: (group, again) for group, sets in DECIDED.items() for again in sets for verb in sets[again]}
    assert {verb: (group_of(request_of(verb)), is_repeatable(request_of(verb))) for verb in VERBS} == decided


@pytest.mark.parametrize(
    "verb", [verb for verb, kind in VERBS.items() if not NAMING.keys().isdisjoint(kind.__struct_fields__)]
)
def test_a_driver_names_no_queue_of_the_system(verb):
    principal = Principal(subject="driver", space="main", scopes=frozenset(), event_types=None)
    with pytest.raises(Problem, match=r"the queue holdfast\.webhooks belongs to the service"):
        check_rights(principal, None, request_of(verb))
