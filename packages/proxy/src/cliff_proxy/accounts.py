"""What each session sent and saved, from what the provider reported.

What the full history would have cost is an estimate: its tokens are counted by us (corrected by the reports), and it is
taken to be read from the provider's cache up to the end of the request before, where the session uses the cache at all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cliff_core import prices

if TYPE_CHECKING:
    from cliff_proxy.engine import Usage

ACCOUNTS_MOST = 1_000
"""Sessions that `status` knows; the totals have all."""


@dataclass(slots=True)
class Sums:
    """Of requests that were answered with usage. Tokens and dollars of input; of output the tokens alone."""

    requests: int = 0
    cliffs: int = 0
    input_tokens: int = 0
    """As reported, cache reads and writes included."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    full_tokens: int = 0
    """Estimate: what the whole history would have been."""
    view_tokens: int = 0
    """What was sent; in shadow mode an estimate of what would have been."""
    dollars: float = 0.0
    full_dollars: float = 0.0
    """Estimate, see the head of this module."""

    def as_dict(self, priced: bool) -> dict[str, Any]:
        """Ready for JSON."""
        found: dict[str, Any] = {
            "requests": self.requests,
            "cliffs": self.cliffs,
            "input_tokens": self.input_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "output_tokens": self.output_tokens,
            "full_tokens_estimate": self.full_tokens,
            "saved_tokens_estimate": self.full_tokens - self.view_tokens,
        }
        if priced:
            found["dollars"] = round(self.dollars, 6)
            found["full_dollars_estimate"] = round(self.full_dollars, 6)
            if self.view_tokens == self.input_tokens:  # in shadow mode nobody was billed for what would have been sent
                found["saved_dollars_estimate"] = round(self.full_dollars - self.dollars, 6)
        return found


@dataclass(slots=True)
class Totals(Sums):
    """Of all sessions; the dollars are those of the sessions whose price is known."""

    sessions: int = 0
    priced_sessions: int = 0

    def as_dict(self, priced: bool) -> dict[str, Any]:
        """Ready for JSON."""
        counts = {"sessions": self.sessions, "priced_sessions": self.priced_sessions}
        return counts | Sums.as_dict(self, priced)


@dataclass(slots=True)
class Account:
    """One session as people see it: all branches of one conversation."""

    id: str
    label: str
    """The client's own id."""
    api: str
    model: str
    price: prices.Price | None
    sums: Sums = field(default_factory=Sums)
    tokens: int = 0
    """Of the newest view."""
    threshold: int = 0
    messages: int = 0
    """Of the newest request's history."""
    last_full: int = 0
    caches: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "id": self.id,
            "label": self.label,
            "api": self.api,
            "model": self.model,
            "messages": self.messages,
            "tokens": self.tokens,
            "threshold": self.threshold,
            **self.sums.as_dict(self.price is not None),
        }


class Accounts:
    """The accounts of one proxy. Can be used by several threads at once."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._all: OrderedDict[str, Account] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def priced(self) -> bool:
        """Whether the price of any session is known."""
        return self.totals.priced_sessions > 0

    def open(self, name: str, label: str, api: str, model: str, price: prices.Price | None) -> Account:
        """A new account. `name`: what its id begins with."""
        with self._lock:
            number = 1
            while (found := name if number == 1 else f"{name}-{number}") in self._all:
                number += 1
            account = self._all[found] = Account(found, label, api, model, price)
            while len(self._all) > ACCOUNTS_MOST:
                self._all.popitem(last=False)
            return account

    def cliff(self, account: Account) -> None:
        """A cliff was sent, or in shadow mode would have been."""
        with self._lock:
            account.sums.cliffs += 1
            self.totals.cliffs += 1

    def enter(self, account: Account, usage: Usage, full: int, view: int) -> None:
        """A request was answered: what was reported; estimates of what the whole history and the view would have had
        (of each the one that was sent has what was reported)."""
        sent, read, written = usage.input, usage.cache_read, usage.cache_write
        with self._lock:
            if account.id in self._all:
                self._all.move_to_end(account.id)
            account.caches |= read > 0 or written > 0
            cost = full_cost = 0.0
            price = account.price
            if not account.sums.requests:
                self.totals.sessions += 1
                self.totals.priced_sessions += price is not None
            if price is not None:
                cached = price.input if price.cached is None else price.cached
                write = price.input if price.cache_write is None else price.cache_write
                plain = max(0, sent - read - written)
                cost = (plain * price.input + read * cached + written * write) / 1_000_000
                before = min(account.last_full, full) if account.caches else 0
                rest = write if account.caches else price.input
                full_cost = (before * cached + (full - before) * rest) / 1_000_000
            account.last_full = full
            for sums in (account.sums, self.totals):
                sums.requests += 1
                sums.input_tokens += sent
                sums.cache_read_tokens += read
                sums.cache_write_tokens += written
                sums.output_tokens += usage.output
                sums.full_tokens += full
                sums.view_tokens += view
                sums.dollars += cost
                sums.full_dollars += full_cost

    def as_list(self) -> list[dict[str, Any]]:
        """The newest first, ready for JSON."""
        with self._lock:
            return [account.as_dict() for account in reversed(self._all.values())]
