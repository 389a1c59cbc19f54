"""The JSON of /api/v1/state back to its types, for `gpumon top` on another daemon: null becomes NaN again."""

from __future__ import annotations

import math
from typing import get_args, get_type_hints

import msgspec

from gpumon.model.errors import GpumonError
from gpumon.ui.state_json import SCHEMA, State


def state_of(document: bytes) -> State:
    """Return the state that a daemon sent.

    Raises: GpumonError when it is no such document, or of a schema this version does not know.
    """
    try:
        raw = msgspec.json.decode(document)
        schema = raw.get("schema") if isinstance(raw, dict) else None
        if schema != SCHEMA:
            raise GpumonError(f"the daemon speaks schema {schema!r} of /api/v1/state; this gpumon knows {SCHEMA}")
        return msgspec.convert(_filled(raw, State), State, strict=False)
    except msgspec.MsgspecError as error:
        raise GpumonError(f"what came is no gpumon state: {error}") from None


def _filled(value: object, wanted: object) -> object:
    """Return the value with null replaced by NaN wherever a plain float is wanted."""
    if value is None:
        return math.nan if wanted is float else None
    arguments = get_args(wanted)
    if isinstance(value, dict):
        struct = next((one for one in (wanted, *arguments) if _is_struct(one)), None)
        if struct is not None:
            assert isinstance(struct, type)
            names = {field.encode_name: field.name for field in msgspec.structs.fields(struct)}
            types = get_type_hints(struct)
            return {key: _filled(item, types[names[key]]) if key in names else item for key, item in value.items()}
        return {key: _filled(item, arguments[-1] if arguments else object) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, arguments[0] if arguments else object) for item in value]
    return value


def _is_struct(wanted: object) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)
