"""What the shards of a posterior hold, for each kind of posterior. Which kind a spec means is decided in `kinds`."""

from __future__ import annotations

from streaminfer.spec import Spec
from streaminfer.tables.kinds import folding_of
from streaminfer.tables.table import Table


def table_of(spec: Spec, shard: int = 0) -> Table:
    """What a shard of a spec's posterior holds, of no event yet."""
    return folding_of(spec).table(spec, shard)
