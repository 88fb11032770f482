r"""Conversion of groups: late updates of one base version are summed, and the sum is converted.

With secure aggregation a server sees the sum of several clients' updates and none of them alone.
The group's mean delta, by examples, and its number of examples are those of one large client
whose data is that of all members: $\bar\Delta = \sum_i n_i \Delta_i / \sum_i n_i$. One step of
gradient descent on the joint data gives exactly this mean; several steps do so nearly, as far as
members' models stay near each other. So the sum is converted as the update of one client, whose
surrogate stands for the group's data.

What this part hands on to the compensator inside it is what such a server could see of late
clients: sums, their examples and who took part. Fresh updates pass by it unseen. So an update is
compared with no fresh ones (uniqueness counts as unknown), and fast clients are no probes.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unstale.errors import ConfigError
from unstale.methods.absence import stood_in_for
from unstale.methods.base import Compensator, check_inner, in_order
from unstale.params import weighted_mean
from unstale.updates import Note, Outcome, ServerView, State, Update

# Notes on what was learned of a group; the others are on what became of each update.
ONCE = ("measured", "checked", "calibrated", "probed")


def groups_of_size(updates: Sequence[Update], size: int) -> list[list[Update]]:
    """Return updates of one base version in groups, in the order of client ids.

    Groups have `size` members; the last one also takes those that would be left over, so that
    no sum is of fewer. If there are fewer than `size` in all, they are one group.

    Example:
        >>> updates = [Update(name, 0, {}, 1) for name in "abcdefgh"]
        >>> [[u.client_id for u in group] for group in groups_of_size(updates, 3)]
        [['a', 'b', 'c'], ['d', 'e', 'f', 'g', 'h']]
    """
    ordered = sorted(updates, key=lambda update: update.key)
    count = max(1, len(ordered) // size)
    cuts = [i * size for i in range(count)]
    ends = [*cuts[1:], len(ordered)]
    return [ordered[begin:end] for begin, end in zip(cuts, ends, strict=True)]


def summed(members: Sequence[Update]) -> Update:
    """Return the update of a group: the mean delta by examples and weights, and all examples.

    The id depends on the members alone, so that the same group is known again.
    """
    names = [member.client_id for member in members]
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).hexdigest()
    examples = sum(member.num_examples for member in members)
    weights = [member.num_examples * member.weight for member in members]
    return Update(
        f"group-{digest}",
        members[0].base_version,
        weighted_mean([member.delta for member in members], weights),
        examples,
        sum(weights) / examples,
    )


@dataclass(frozen=True, slots=True)
class InGroups:
    """Sums late updates of one base version and has the sums compensated; made by `in_groups`.

    Every member is given what became of its group's sum, so the mean of the round is the same
    as if the sum itself were aggregated. Absent members are stood in for by the group's
    surrogate, each with its share of the group's examples. Memory, besides that of what is
    inside: the members of the newest group of each client.
    """

    inner: Compensator
    """What is done to the sums."""
    size: int = 3
    """The least number of updates in a sum, where as many have arrived of one base version."""

    def __post_init__(self) -> None:
        check_inner("in_groups", self.inner)
        if type(self.size) is not int or self.size < 1:
            raise ConfigError(
                f"in_groups: `size` should be a positive integer. Found {self.size!r}."
            )

    @property
    def lookback(self) -> int:
        """That of the compensator inside."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the state without any group."""
        return {"inner": self.inner.init(), "groups": {}}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Sum the late updates, have the sums compensated, and give the results to the members."""
        late = [u for u in updates if u.staleness(view.version) > 0 and u.weight > 0]
        passing = [u for u in updates if u.staleness(view.version) == 0 or u.weight <= 0]
        bases = sorted({update.base_version for update in late})
        groups = [
            members
            for base in bases
            for members in groups_of_size([u for u in late if u.base_version == base], self.size)
        ]
        sums = [summed(members) for members in groups]
        known = _known(state["groups"], sums, groups)
        away = {*view.absent}
        drawn = {name: [m for m in group["members"] if m in away] for name, group in known.items()}
        seen = dataclasses.replace(view, absent=tuple(n for n in sorted(drawn) if drawn[n]))
        outcome = self.inner.apply(sums, state["inner"], seen)
        of = {total.key: members for total, members in zip(sums, groups, strict=True)}
        whole = {total.key: total for total in sums}
        made: list[Update] = []
        standing: list[Update] = []
        for result in outcome.updates:
            if result.stand_in:
                standing += _shared_out(result, drawn[result.client_id], known[result.client_id])
                continue
            by = result.weight / whole[result.key].weight
            made += [
                dataclasses.replace(member, delta=result.delta, weight=member.weight * by)
                for member in of[result.key]
            ]
        notes = [note for one in outcome.notes for note in _told(one, of, drawn)]
        return Outcome(
            (*in_order([*passing, *made], updates), *sorted(standing, key=lambda u: u.key)),
            {"inner": outcome.state, "groups": known},
            tuple(notes),
        )

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the members of groups that would be stood in for."""
        groups = stood_in_for(self.inner, state["inner"], version)
        return frozenset(
            member
            for name, group in state["groups"].items()
            if name in groups
            for member in group["members"]
        )


def in_groups(inner: Compensator, size: int = 3) -> InGroups:
    """Return a compensator that treats late updates of one base version as sums of `size`.

    Example:
        >>> from unstale.methods import ConvertAll
        >>> in_groups(ConvertAll(), size=10).size
        10
    """
    return InGroups(inner, size)


def _known(
    before: Mapping[str, Any], sums: Sequence[Update], groups: Sequence[Sequence[Update]]
) -> dict[str, Any]:
    """Return the newest group of every client: its members and what each counts for."""
    after = dict(before)
    for total, members in zip(sums, groups, strict=True):
        names = [member.client_id for member in members]
        after = {
            name: group
            for name, group in after.items()
            if name == total.client_id or not {*names} & {*group["members"]}
        }
        after[total.client_id] = {
            "members": names,
            "examples": max(1, total.num_examples // len(members)),
        }
    return dict(sorted(after.items()))


def _shared_out(stand_in: Update, absent: Sequence[str], group: Mapping[str, Any]) -> list[Update]:
    """Return a stand-in for each absent member, made of the group's."""
    return [
        dataclasses.replace(stand_in, client_id=member, num_examples=group["examples"])
        for member in absent
    ]


def _told(
    note: Note, of: Mapping[tuple[str, int], Sequence[Update]], drawn: Mapping[str, Sequence[str]]
) -> list[Note]:
    """Return a note on a group as notes on its members."""
    key = (note.client_id, note.base_version)
    if note.kind == "stood_in":
        names = list(drawn.get(note.client_id, ()))
    else:
        names = [member.client_id for member in of.get(key, ())]
    if note.kind in ONCE:
        names = names[:1]
    told = [dataclasses.replace(note, client_id=name) for name in names]
    # The work of a fit is counted once.
    others = {k: v for k, v in note.detail.items() if k not in ("iterations", "curve", "seconds")}
    return [*told[:1], *(dataclasses.replace(one, detail=others) for one in told[1:])]
