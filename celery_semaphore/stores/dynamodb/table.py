"""Describe, make and examine the table of documents."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError, StoreUnavailable
from .errors import Denied, Driver, NoTable, code_of
from .items import INDEX, MAY_BE_DELETED

if TYPE_CHECKING:
    from .link import Link

VERSION = 1
READY_S, LOOK_S = 60.0, 0.5  # for a table that is being made
_KEYS = [("pk", "HASH"), ("sk", "RANGE")]
_INDEX_KEYS = [("listed", "HASH"), ("due", "RANGE")]
_TYPES = {"pk": "S", "sk": "S", "listed": "S", "due": "N"}
_TIME_TO_LIVE = {"Enabled": True, "AttributeName": MAY_BE_DELETED}


def definition(name: str) -> dict[str, Any]:
    """Return the table as AWS's command line and CloudFormation know it."""
    index = {
        "IndexName": INDEX,
        "KeySchema": _schema(_INDEX_KEYS),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": each, "AttributeType": kind} for each, kind in _TYPES.items()
        ],
        "KeySchema": _schema(_KEYS),
        "GlobalSecondaryIndexes": [index],
    }


def script(link: Link) -> str:
    """Return the commands that do what ``install`` does."""
    place = link.place
    where = f"--region {place.region}"
    where += f" --endpoint-url {place.endpoint_url}" if place.endpoint_url else ""
    made = json.dumps(definition(place.table))
    lives = json.dumps(_TIME_TO_LIVE)
    named = f"{where} --table-name {place.table}"
    return (
        f"aws dynamodb create-table {where} --cli-input-json '{made}'\n"
        f"aws dynamodb wait table-exists {named}\n"
        f"aws dynamodb update-time-to-live {named} --time-to-live-specification '{lives}'\n"
    )


def install(link: Link) -> list[int]:
    """Make the table if it is missing, and let items expire; return the versions that were missing."""
    found = described(link)
    if found is None:
        link.again(lambda: _make(link))
    _wait_until_ready(link)
    if expires(link) is False:
        link.again(lambda: link.call("update_time_to_live", TimeToLiveSpecification=_TIME_TO_LIVE))
    return [VERSION] if found is None else []


def _make(link: Link) -> None:
    try:
        link.call_as_is("create_table", **definition(link.place.table))
    except Driver as error:
        if code_of(error) != "ResourceInUseException":  # it is there, or is being made
            raise link.translated(error) from error


def _wait_until_ready(link: Link) -> None:
    until = time.monotonic() + READY_S
    while True:
        found = described(link)
        if found and found.get("TableStatus") in ("ACTIVE", "UPDATING"):
            return check_schema(found)
        if time.monotonic() > until:
            raise StoreUnavailable(f"{link.place} is not ready after {READY_S:g} s: try again")
        time.sleep(LOOK_S)


def described(link: Link) -> dict[str, Any] | None:
    """Return what DynamoDB says of the table, or None if there is none."""
    try:
        found: dict[str, Any] = link.again(lambda: link.call("describe_table"))
    except NoTable:
        return None
    return dict(found["Table"])


def check_schema(found: dict[str, Any]) -> None:
    """Raise if this table is not one of documents."""
    name = found["TableName"]
    keys = _keys(found["KeySchema"])
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    indexes = {each["IndexName"]: each for each in found.get("GlobalSecondaryIndexes", [])}
    if keys != _KEYS or any(types.get(key) != _TYPES[key] for key, _ in keys):
        told = ", ".join(f"{key} ({types.get(key)}, {kind})" for key, kind in keys)
        msg = (
            f"The table {name!r} has the key {told}, and permits need pk (S, HASH), sk (S, RANGE): it is of something"
            " else. Name another table in semaphore_url, and make it: `celery -A <your app> semaphore install`."
        )
        raise ConfigurationError(msg)
    if INDEX not in indexes or _keys(indexes[INDEX]["KeySchema"]) != _INDEX_KEYS:
        msg = (
            f"The table {name!r} has no index {INDEX!r} of listed (S, HASH), due (N, RANGE): add it, or delete the table"
            " and make it anew: `celery -A <your app> semaphore install`, which prints it with --sql."
        )
        raise ConfigurationError(msg)


def expires(link: Link) -> bool | None:
    """Return whether DynamoDB deletes what has expired; None if this process may not know."""
    try:
        found = link.again(lambda: link.call("describe_time_to_live"))
    except Denied:
        return None
    told = found["TimeToLiveDescription"]
    is_on = told["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
    return is_on and told.get("AttributeName") == MAY_BE_DELETED


def _schema(keys: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in keys]


def _keys(schema: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return the parts of a key, the partition first."""
    found = [(each["AttributeName"], each["KeyType"]) for each in schema]
    return sorted(found, key=lambda each: each[1] != "HASH")
