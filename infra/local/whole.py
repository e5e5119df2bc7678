"""A pattern for a range of whole numbers: CloudFormation's type Number takes fractions, too."""

from __future__ import annotations


def pattern(least: int, most: int) -> str:
    """Of the numbers from `least` to `most` as they are written, without leading zeros."""
    parts: list[str] = []
    while least <= most:
        digits = len(str(least))
        # As many of the last digits as may be anything, from `least` on and up to `most`.
        free = 0
        while least % 10 ** (free + 1) == 0 and least + 10 ** (free + 1) - 1 <= most and free + 1 < digits:
            free += 1
        step = 10**free
        first, last = least // step % 10, min(9, least // step % 10 + (most - least + 1) // step - 1)
        head, any_digit = str(least // step // 10 or ""), "[0-9]"
        middle = str(first) if first == last else f"[{first}-{last}]"
        tail = "" if free == 0 else any_digit if free == 1 else f"{any_digit}{{{free}}}"
        parts.append(f"{head}{middle}{tail}")
        least += (last - first + 1) * step
    return "|".join(parts)
