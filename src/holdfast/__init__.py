"""Holdfast: durable jobs under strict leases, one at a time or a DataFrame at a time."""

from holdfast.client import Client
from holdfast.connect import connect
from holdfast.drivers.settle_one import ack, fail, release, retry
from holdfast.errors import HoldfastError, InvalidInput, LeaseError
from holdfast.model.definition import JobBuilder, JobDefinition
from holdfast.model.job import Job, JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.request import JobRequest
from holdfast.wire.codec import Codec

__all__ = [
    "Client",
    "Codec",
    "Enqueued",
    "HoldfastError",
    "InvalidInput",
    "Job",
    "JobBuilder",
    "JobDefinition",
    "JobRecord",
    "JobRequest",
    "Lease",
    "LeaseError",
    "QueueSettings",
    "Reservation",
    "State",
    "ack",
    "connect",
    "fail",
    "release",
    "retry",
]
