"""Batches of one partition as the leaves of a binary tree of merges.

A visit replaces a leaf and merges the path above it anew, log2 of the batches. Nothing is ever subtracted, so the sum
at the root is that of the leaves, however often they were replaced. Trees are immutable and share what is alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streaminfer.models.model import Model
from streaminfer.variational.increment import Pane, Panes


class Node(NamedTuple):
    """The events of all leaves below; a leaf has nothing below."""

    pane: Pane
    left: Node | None = None
    right: Node | None = None


class Tree(NamedTuple):
    """Batches in the order of their first positions."""

    begins: tuple[int, ...] = ()
    root: Node | None = None

    @property
    def height(self) -> int:
        return max(0, len(self.begins) - 1).bit_length()

    @property
    def n_events(self) -> int:
        return 0 if self.root is None else self.root.pane.n_events

    def find(self, begin: int) -> int | None:
        """The number of the batch that begins at a position."""
        return find(self.begins, begin)

    def leaf(self, i: int) -> Pane:
        """Batch number i."""
        node, height = self.root, self.height
        while height and node is not None:
            height -= 1
            node, i = (node.right, i - (1 << height)) if i >> height else (node.left, i)
        if node is None:
            raise IndexError(f"there is no batch {i}")
        return node.pane


def find(begins: Sequence[int], begin: int) -> int | None:
    """The place of a position among ascending ones."""
    i = bisect_left(begins, begin)
    return i if i < len(begins) and begins[i] == begin else None


def of(model: Model, batches: Panes) -> Tree:
    """A tree of batches by their first positions."""
    begins = tuple(sorted(batches))
    level: list[Node] = [Node(batches[begin]) for begin in begins]
    while len(level) > 1:
        rights: list[Node | None] = [*level[1::2], None]
        level = [_joined(model, left, right) for left, right in zip(level[::2], rights, strict=False)]
    return Tree(begins, level[0] if level else None)


def placed(model: Model, tree: Tree, begin: int, batch: Pane) -> Tree:
    """The tree with a batch that begins at a position: in the place of the one it has there, or after all others."""
    i = tree.find(begin)
    if i is not None:
        return tree._replace(root=_put(model, tree.root, tree.height, i, batch))
    if tree.begins and begin < tree.begins[-1]:
        raise ValueError(f"a batch from {begin} comes before the last, which begins at {tree.begins[-1]}")
    grown = Tree((*tree.begins, begin))
    root = tree.root
    if root is not None and grown.height > tree.height:
        root = Node(root.pane, root)
    return grown._replace(root=_put(model, root, grown.height, len(tree.begins), batch))


def changes(old: Tree, new: Tree) -> dict[int, Pane]:
    """The batches of `new`, by first position, that are not the same in `old`; `new` has all of those of `old`."""
    return {new.begins[i]: pane for i, pane in _changed(old.root, old.height, new.root, new.height, 0)}


def _put(model: Model, node: Node | None, height: int, i: int, batch: Pane) -> Node:
    if height == 0:
        return Node(batch)
    half = 1 << (height - 1)
    left, right = (None, None) if node is None else (node.left, node.right)
    if i < half:
        return _joined(model, _put(model, left, height - 1, i, batch), right)
    if left is None:
        raise ValueError("a batch cannot come before one that does not exist")
    return _joined(model, left, _put(model, right, height - 1, i - half, batch))


def _joined(model: Model, left: Node, right: Node | None) -> Node:
    if right is None:
        return Node(left.pane, left)
    statistics = model.merge(left.pane.statistics, right.pane.statistics)
    return Node(Pane(left.pane.n_events + right.pane.n_events, statistics), left, right)


def _changed(
    old: Node | None, old_height: int, new: Node | None, height: int, first: int
) -> Iterator[tuple[int, Pane]]:
    """Number and batch of the leaves below `new`, from number `first` on, that are not those below `old`."""
    if new is None or new is old:
        return
    if height == 0:
        if old is None or new.pane is not old.pane:
            yield first, new.pane
        return
    left, right = old, None
    if old is not None and old_height == height:
        left, right = old.left, old.right
        old_height -= 1
    yield from _changed(left, old_height, new.left, height - 1, first)
    yield from _changed(right, height - 1, new.right, height - 1, first + (1 << (height - 1)))
