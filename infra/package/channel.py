"""The template of one channel: as it is written, but for what only the other one has, whose types not every region knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node

# The condition that holds for a channel, and no other.
CONDITIONS = {"email": "IsEmail", "sms": "IsSms"}
# A part of a text, and what replaces it.
Edit = tuple[int, int, str]


def of_channel(template: str, channel: str) -> str:
    """Without resources and outputs that are never there, and with each choice that is always the same made."""
    parts = {key.value: value for key, value in yaml.compose(template, Loader=yaml.CSafeLoader).value}
    known = {condition: of == channel for of, condition in CONDITIONS.items()}
    for name, condition in parts["Conditions"].value:
        if condition.tag == "!And" and any(known.get(part.value) is False for part in condition.value):
            known[name.value] = False
    edits: list[Edit] = []
    for part in ("Resources", "Outputs"):
        for key, value in parts[part].value:
            conditions = [member.value for name, member in value.value if name.value == "Condition"]
            never = any(known.get(condition) is False for condition in conditions)
            edits += [_whole(key, value, template)] if never else _choices(value, template, known)
    return _edited(template, edits)


def _choices(node: Node, text: str, known: dict[str, bool]) -> Iterator[Edit]:
    """The choices in a node that are known, each with the branch that is chosen."""
    if node.tag == "!If" and node.value[0].value in known:
        chosen = node.value[1 if known[node.value[0].value] else 2]
        start, place = node.start_mark.index, chosen.start_mark.index
        within = [(s - place, e - place, new) for s, e, new in _choices(chosen, text, known)]
        branch = _edited(text[place : _end(chosen, text)], within)
        further = chosen.start_mark.column - node.start_mark.column
        yield start, _end(node, text), re.sub(rf"\n {{{further}}}", "\n", branch)
    elif isinstance(node, MappingNode):
        for _, value in node.value:
            yield from _choices(value, text, known)
    elif isinstance(node, CollectionNode):
        for value in node.value:
            yield from _choices(value, text, known)


def _whole(key: Node, value: Node, text: str) -> Edit:
    """All of a resource or an output, with the comment before it and the empty line after it."""
    (before,) = re.findall(r"(?:^  #(?! -).*\n)*^  \Z", text[: key.start_mark.index], re.M)
    end = _end(value, text)
    return key.start_mark.index - len(before), end + len(re.match(r"\n*", text[end:])[0]), ""


def _end(node: Node, text: str) -> int:
    """Where the last of a node stands; what is written in block style ends after comments that follow it."""
    if isinstance(node, CollectionNode) and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last, text)
    return len(text[: node.end_mark.index].rstrip())


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
