"""Handlers that do not stop. Each is a way in which real handlers have hung."""

import contextlib
import ctypes
import faulthandler
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time


def loops(_payload):
    while True:
        pass


def sleeps(_payload):
    time.sleep(3600)


def sleeps_in_c_without_the_gil(_payload):
    ctypes.CDLL(None).sleep(3600)


def sleeps_in_c_with_the_gil(_payload):
    ctypes.PyDLL(None).sleep(3600)


def swallows_everything(_payload):
    while True:
        with contextlib.suppress(BaseException):
            while True:
                time.sleep(0.01)


def ignores_signals(_payload):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGIO):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(0.01)


def waits_for_a_lock(_payload):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def waits_for_a_socket(_payload):
    here, _there = socket.socketpair()
    here.recv(1)


def waits_for_a_process(_payload):
    subprocess.run([sys.executable, "-c", "import time; time.sleep(20)"], check=False)


def backtracks(_payload):
    re.match(r"(a+)+$", "a" * 40 + "b")


def blocks_signals(_payload):
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    while True:
        time.sleep(0.01)


async def awaits(_payload):
    import asyncio

    await asyncio.sleep(3600)


def loops_and_swallows_everything(_payload):
    while True:
        with contextlib.suppress(BaseException):
            while True:
                pass


BUSY_HANDLERS = (loops, loops_and_swallows_everything, backtracks)

HOSTILE_HANDLERS = (
    loops,
    sleeps,
    sleeps_in_c_without_the_gil,
    sleeps_in_c_with_the_gil,
    swallows_everything,
    ignores_signals,
    waits_for_a_lock,
    waits_for_a_socket,
    waits_for_a_process,
    backtracks,
    blocks_signals,
    awaits,
)


def dies_by_signal(_payload):
    faulthandler.disable()  # the one of pytest would print a traceback for each
    os.kill(os.getpid(), signal.SIGSEGV)


def exits_at_once(_payload):
    os._exit(3)
