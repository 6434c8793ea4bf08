"""Why bytes could not become a value."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that are not what their topic holds. `reason` is a word for counting, the text says what is wrong."""

    reason = "undecodable"


class BadFrame(WireError):
    """Not in the Confluent framing, or of another schema."""

    reason = "bad-frame"


class BadBody(WireError):
    """The body does not follow its schema, or bytes are left over."""

    reason = "bad-body"


class BadValue(WireError):
    """Well formed, but a value is out of its bounds: not finite, of a wrong shape, too large."""

    reason = "bad-value"


class Older(BadValue):
    """Its version is not above the newest: versions only rise, so it was appended again."""


class Damaged(WireError):
    """Not what was written."""

    reason = "damaged"


class UnknownSchema(BadFrame):
    """Its schema is not known to this version: it is of a later version, or of a registry that is not asked."""
