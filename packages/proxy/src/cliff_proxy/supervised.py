"""A command that runs as if it had been started without us: its terminal, its files, its signals, its exit status.

It stays in our process group, so that a pipeline or a shell's job is one job. A signal of the terminal reaches it from
the kernel, and we do nothing; one that was sent to us alone is passed on. When it is stopped, we stop, so that the
shell gets its terminal back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

PASSED = {
    number
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTSTP", "SIGCONT")
    if (number := getattr(signal, name, None)) is not None
}
"""Signals that are passed on."""

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""Exit statuses of a command that could not be started, as shells have them."""


class StartError(Exception):
    """The command could not be started."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Command:
    """Blocks signals from its making on (before other threads start, which inherit that), until `close`. For the main
    thread."""

    def __init__(self) -> None:
        self._status: int | None = None
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED | {signal.SIGCHLD})
        # By default these are thrown away, on some systems even where they are waited for.
        self._defaults = [n for n in _THROWN_AWAY if signal.getsignal(n) is signal.SIG_DFL]
        for number in self._defaults:
            signal.signal(number, _nothing)

    def close(self) -> None:
        """Signals that came meanwhile are dropped: they were meant for the command, which has ended."""
        for number in (PASSED | {signal.SIGCHLD}) & signal.sigpending():
            signal.sigwait({number})
        for number in self._defaults:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    @property
    def told_to_end(self) -> int | None:
        """A signal that came before the command was started and would have ended it."""
        return min({signal.SIGINT, signal.SIGTERM, signal.SIGHUP} & signal.sigpending(), default=None)

    def run(self, argv: Sequence[str], environ: Mapping[str, str]) -> int:
        """Runs it to its end: its exit status, or 128 + the number of the signal that ended it. Raises `StartError`."""
        if (number := self.told_to_end) is not None:
            return 128 + number
        # What Python itself ignores is not ignored in the command; its other dispositions are those of our own start.
        changed = [number for name in ("SIGPIPE", "SIGXFSZ") if (number := getattr(signal, name, None)) is not None]
        try:
            pid = os.posix_spawnp(argv[0], list(argv), dict(environ), setsigmask=self._mask, setsigdef=changed)
        except FileNotFoundError:
            raise StartError(f"{argv[0]}: command not found", NOT_FOUND) from None
        except OSError as error:
            status = NOT_FOUND if error.errno == errno.ENOTDIR else NOT_EXECUTABLE
            raise StartError(f"{argv[0]}: cannot be run: {error.strerror}", status) from None
        waiter = threading.Thread(target=self._wait, args=(pid, threading.get_ident()), daemon=True)
        waiter.start()
        while True:
            number, from_terminal = _next_signal()
            if self._status is not None:
                waiter.join()
                return 128 - self._status if self._status < 0 else self._status
            if number != signal.SIGCHLD and (number == signal.SIGCONT or not from_terminal):
                with contextlib.suppress(ProcessLookupError):  # it ended just now
                    os.kill(pid, number)

    def _wait(self, pid: int, main: int) -> None:
        """In a thread: until the command has ended, and then wake the main one."""
        while self._status is None:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                self._status = os.waitstatus_to_exitcode(status)
        signal.pthread_kill(main, signal.SIGCHLD)


_THROWN_AWAY = (signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH)


def _nothing(*_: object) -> None:
    """A handler that is never called: its signal is blocked."""


def _next_signal() -> tuple[int, bool]:
    """The next signal, and whether the terminal sent it, to the command as well."""
    waited = PASSED | {signal.SIGCHLD}
    if sys.platform == "darwin":  # has no sigwaitinfo
        number = signal.sigwait(waited)
        return number, number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH) and _in_foreground()
    info = signal.sigwaitinfo(waited)
    return info.si_signo, info.si_code > 0  # sent by the kernel, not by a process


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
