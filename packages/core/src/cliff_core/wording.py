"""Figures and recorded texts as people read them."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that turn the direction of text, and halves of surrogate pairs."""


def printable(text: str) -> str:
    """Recorded text for a terminal: characters that could drive it, as their pictures."""
    return _UNSAFE.sub(_picture, text.replace("\r\n", "\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def grouped(number: int) -> str:
    """`9 528 745`."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, unit: str) -> str:
    """`1 request`, `9 528 745 requests`."""
    return f"{grouped(number)} {unit}{'' if number == 1 else 's'}"


def thousands(number: float) -> str:
    """`16k`, `1.5k`, `1.25M`."""
    if number >= 1_000_000:
        return f"{number / 1_000_000:.3g}M"
    return f"{number / 1000:.3g}k" if number >= 1000 else f"{number:.0f}"


def dollars(amount: float) -> str:
    """Two decimals from a dollar on, else as many as show two digits."""
    if amount >= 1 or amount <= 0:
        return f"${amount:,.2f}".replace(",", " ")
    return f"${amount:.3f}" if amount >= 0.01 else f"${amount:.2g}"


def plain(number: float) -> str:
    """Up to four decimals, without zeros at the end."""
    return f"{number:.4f}".rstrip("0").rstrip(".")
