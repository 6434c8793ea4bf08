"""The identity of the data topic: which one of its name a posterior has learned from; a frontier holds in no other."""

from __future__ import annotations

from collections.abc import Iterable

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot


def check(spec: Spec, bus: Bus, snapshots: Iterable[Snapshot]) -> str:
    """The id of the data topic as it is now; raises Fatal if a snapshot is of another topic of that name."""
    return check_ids(spec, bus, [snapshot.frontier.topic_id for snapshot in snapshots])


def check_ids(spec: Spec, bus: Bus, ids: Iterable[str]) -> str:
    """The same for ids of topics that something was learned from; an empty one is not known.

    Ids never come back: what was read before a check that succeeds is of the topic that the ids are of.
    """
    topic = names.data_topic(spec)
    found = bus.topic_id(topic)
    for learned in ids:
        if learned not in {"", found}:
            raise Fatal(
                f"{topic}: the topic was deleted and created again (its id is {found}, the posterior has learned from "
                f"{learned}), so the frontier of the posterior is not valid for it. To learn from the new "
                "topic, give the spec a new name; the old posterior stays as it is."
            )
    return found
