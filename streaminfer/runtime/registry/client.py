"""What a registry knows of a schema under a subject, and registering it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from streaminfer.runtime.registry.canonical import same
from streaminfer.runtime.registry.http import PATH_HINT, Answer, Conversation, RegistryError
from streaminfer.wire.avro import MAX_ID

_NOT_THERE = frozenset((40401, 40402, 40403))
"""Error codes for a missing subject, version and schema."""
MAX_VERSIONS = 20
"""Versions of a subject that are looked at, from the newest on."""
ATTEMPTS = 3
"""If several clients register at the same time, Apicurio answers some as if they brought another schema: they ask
again."""


class _Conflict(RegistryError):
    """The status 409, with the registry's words."""

    def __init__(self, message: str, words: str) -> None:
        super().__init__(message)
        self.words = words


class Registry:
    """One conversation with a registry. Whatever id it gives is asked back for, and must be of our schema."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def find(self, subject: str, schema: str) -> int | None:
        """The id of the schema under a subject, None if it is not registered there."""
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}", schema)
        return None if answer is None else self._verified(answer, subject, schema)

    def register(self, subject: str, schema: str) -> int:
        """The id of the schema under a subject, which it is added to if it is new and compatible."""
        words = ""
        for _ in range(ATTEMPTS):
            found = self.find(subject, schema)
            if found is not None:
                return found
            words = self.objection(subject, schema) or ""
            if words:
                break
            try:
                answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", schema)
            except _Conflict as conflict:
                words = conflict.words
                continue
            if answer is None:
                raise RegistryError(self._conversation.say(f"does not allow {subject} to be created"))
            return self._verified(answer, subject, schema)
        raise RegistryError(
            self._conversation.say(
                f"has a schema under {subject} that ours is not compatible with ({words}): give the spec a new name, "
                "or change the subject or its compatibility rule"
            )
        )

    def text(self, schema_id: int) -> str | None:
        """The schema of an id, None if there is none; whether it is one that can be read is not judged here."""
        answer = self._ask("GET", f"/schemas/ids/{schema_id}")
        if answer is None:
            return None
        found, kind = answer.body.get("schema"), answer.body.get("schemaType", "AVRO")
        if not isinstance(found, str):
            raise RegistryError(self._conversation.say(f"answers for the id {schema_id} without a schema"))
        return found if kind == "AVRO" else None

    def ids_of(self, subject: str, schemas: Sequence[str]) -> list[list[int]]:
        """For each schema the ids of all versions of a subject that are the same: releases may differ in documentation.

        Oldest first, and without any request that a proxy could take for writing.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        listed = self._ask("GET", path)
        versions = [] if listed is None else listed.value
        if not isinstance(versions, list) or not all(type(version) is int for version in versions):
            raise RegistryError(self._conversation.say(f"does not list the versions of {subject}"))
        answers = [self._ask("GET", f"{path}/{version}") for version in sorted(versions)[-MAX_VERSIONS:]]
        texts = [(answer, str(answer.body.get("schema"))) for answer in answers if answer is not None]
        return [[self._id(answer, subject) for answer, text in texts if same(text, schema)] for schema in schemas]

    def objection(self, subject: str, schema: str) -> str | None:
        """Why the schema cannot follow the newest one of the subject; None if it can, or would be the first."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        answer = self._ask("POST", path, schema)
        if answer is None or answer.body.get("is_compatible") is True:
            return None
        if answer.body.get("is_compatible") is not False:
            raise RegistryError(self._conversation.say(f"does not say whether the schema of {subject} is compatible"))
        words = answer.body.get("messages") or [answer.body.get("reason")]  # Confluent's word, Apicurio's word
        listed = words if isinstance(words, list) else [words]
        return self._conversation.words("; ".join(str(word) for word in listed if word)) or "no reason is given"

    def _id(self, answer: Answer, subject: str) -> int:
        found = answer.body.get("id")
        if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= MAX_ID:
            raise RegistryError(
                self._conversation.say(
                    f"gives {subject} the id {self._conversation.words(found)!r}, which is not from 1 to {MAX_ID}"
                )
            )
        return found

    def _verified(self, answer: Answer, subject: str, schema: str) -> int:
        found = self._id(answer, subject)
        kept = self._ask("GET", f"/schemas/ids/{found}")
        text = None if kept is None else kept.body.get("schema")
        if not isinstance(text, str) or not same(text, schema):
            raise RegistryError(
                self._conversation.say(f"gives {subject} the id {found}, which belongs to another schema")
            )
        return found

    def _ask(self, method: str, path: str, schema: str | None = None) -> Answer | None:
        """An answer of success; None if the subject, version or schema does not exist."""
        document: dict[str, Any] | None = None if schema is None else {"schema": schema}
        answer = self._conversation.ask(method, path, document)
        if answer.status == 404 and answer.code in _NOT_THERE:
            return None
        if answer.status != 200:
            words = self._conversation.words(answer.body.get("message"))
            hint = f"; {PATH_HINT}" if answer.status == 404 else ""
            message = self._conversation.say(f"answers {method} {path} with status {answer.status}: {words}{hint}")
            raise _Conflict(message, words) if answer.status == 409 else RegistryError(message)
        return answer
