from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Report(_message.Message):
    __slots__ = ("format", "cluster", "agent", "incarnation", "sequence", "sent_at_us", "revision", "hello", "leave", "keyframe", "group_id_deltas", "rows", "weight", "interval_ms", "checksum", "signature", "part", "parts", "permits")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_US_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    KEYFRAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_DELTAS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    format: int
    cluster: str
    agent: str
    incarnation: int
    sequence: int
    sent_at_us: int
    revision: int
    hello: bool
    leave: bool
    keyframe: bool
    group_id_deltas: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedCompositeFieldContainer[Rows]
    weight: float
    interval_ms: int
    checksum: int
    signature: bytes
    part: int
    parts: _containers.RepeatedScalarFieldContainer[int]
    permits: _containers.RepeatedCompositeFieldContainer[Permits]
    def __init__(self, format: _Optional[int] = ..., cluster: _Optional[str] = ..., agent: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., sent_at_us: _Optional[int] = ..., revision: _Optional[int] = ..., hello: _Optional[bool] = ..., leave: _Optional[bool] = ..., keyframe: _Optional[bool] = ..., group_id_deltas: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[_Union[Rows, _Mapping]]] = ..., weight: _Optional[float] = ..., interval_ms: _Optional[int] = ..., checksum: _Optional[int] = ..., signature: _Optional[bytes] = ..., part: _Optional[int] = ..., parts: _Optional[_Iterable[int]] = ..., permits: _Optional[_Iterable[_Union[Permits, _Mapping]]] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("dimension", "counter_scale", "held_scale", "level_scale", "group_id_deltas", "refused", "admitted", "demand", "held", "level", "subjects", "cost", "largest", "inside", "age", "before", "counted", "own", "sure", "sure_level", "told")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    COUNTER_SCALE_FIELD_NUMBER: _ClassVar[int]
    HELD_SCALE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_SCALE_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_DELTAS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    SURE_FIELD_NUMBER: _ClassVar[int]
    SURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    dimension: str
    counter_scale: int
    held_scale: int
    level_scale: int
    group_id_deltas: _containers.RepeatedScalarFieldContainer[int]
    refused: _containers.RepeatedScalarFieldContainer[int]
    admitted: _containers.RepeatedScalarFieldContainer[int]
    demand: _containers.RepeatedScalarFieldContainer[int]
    held: _containers.RepeatedScalarFieldContainer[int]
    level: _containers.RepeatedScalarFieldContainer[int]
    subjects: _containers.RepeatedScalarFieldContainer[int]
    cost: _containers.RepeatedScalarFieldContainer[int]
    largest: _containers.RepeatedScalarFieldContainer[int]
    inside: _containers.RepeatedScalarFieldContainer[int]
    age: _containers.RepeatedScalarFieldContainer[int]
    before: _containers.RepeatedScalarFieldContainer[int]
    counted: _containers.RepeatedScalarFieldContainer[int]
    own: _containers.RepeatedScalarFieldContainer[int]
    sure: _containers.RepeatedScalarFieldContainer[int]
    sure_level: _containers.RepeatedScalarFieldContainer[int]
    told: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dimension: _Optional[str] = ..., counter_scale: _Optional[int] = ..., held_scale: _Optional[int] = ..., level_scale: _Optional[int] = ..., group_id_deltas: _Optional[_Iterable[int]] = ..., refused: _Optional[_Iterable[int]] = ..., admitted: _Optional[_Iterable[int]] = ..., demand: _Optional[_Iterable[int]] = ..., held: _Optional[_Iterable[int]] = ..., level: _Optional[_Iterable[int]] = ..., subjects: _Optional[_Iterable[int]] = ..., cost: _Optional[_Iterable[int]] = ..., largest: _Optional[_Iterable[int]] = ..., inside: _Optional[_Iterable[int]] = ..., age: _Optional[_Iterable[int]] = ..., before: _Optional[_Iterable[int]] = ..., counted: _Optional[_Iterable[int]] = ..., own: _Optional[_Iterable[int]] = ..., sure: _Optional[_Iterable[int]] = ..., sure_level: _Optional[_Iterable[int]] = ..., told: _Optional[_Iterable[int]] = ...) -> None: ...

class Permits(_message.Message):
    __slots__ = ("dimension", "agents", "life_agent", "life_incarnation", "run_group_deltas", "run_first", "run_count", "run_epoch", "run_owner", "run_giver", "run_tokens", "run_tokens_rest", "known_group_deltas", "known_life", "known_state", "known_heard_ms", "run_missed", "known_in_use", "known_wanted")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    LIFE_AGENT_FIELD_NUMBER: _ClassVar[int]
    LIFE_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RUN_GROUP_DELTAS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIRST_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUN_OWNER_FIELD_NUMBER: _ClassVar[int]
    RUN_GIVER_FIELD_NUMBER: _ClassVar[int]
    RUN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RUN_TOKENS_REST_FIELD_NUMBER: _ClassVar[int]
    KNOWN_GROUP_DELTAS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_LIFE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_STATE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_MISSED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_IN_USE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_WANTED_FIELD_NUMBER: _ClassVar[int]
    dimension: str
    agents: _containers.RepeatedScalarFieldContainer[str]
    life_agent: _containers.RepeatedScalarFieldContainer[int]
    life_incarnation: _containers.RepeatedScalarFieldContainer[int]
    run_group_deltas: _containers.RepeatedScalarFieldContainer[int]
    run_first: _containers.RepeatedScalarFieldContainer[int]
    run_count: _containers.RepeatedScalarFieldContainer[int]
    run_epoch: _containers.RepeatedScalarFieldContainer[int]
    run_owner: _containers.RepeatedScalarFieldContainer[int]
    run_giver: _containers.RepeatedScalarFieldContainer[int]
    run_tokens: _containers.RepeatedScalarFieldContainer[int]
    run_tokens_rest: _containers.RepeatedScalarFieldContainer[int]
    known_group_deltas: _containers.RepeatedScalarFieldContainer[int]
    known_life: _containers.RepeatedScalarFieldContainer[int]
    known_state: _containers.RepeatedScalarFieldContainer[int]
    known_heard_ms: _containers.RepeatedScalarFieldContainer[int]
    run_missed: _containers.RepeatedScalarFieldContainer[bool]
    known_in_use: _containers.RepeatedScalarFieldContainer[int]
    known_wanted: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dimension: _Optional[str] = ..., agents: _Optional[_Iterable[str]] = ..., life_agent: _Optional[_Iterable[int]] = ..., life_incarnation: _Optional[_Iterable[int]] = ..., run_group_deltas: _Optional[_Iterable[int]] = ..., run_first: _Optional[_Iterable[int]] = ..., run_count: _Optional[_Iterable[int]] = ..., run_epoch: _Optional[_Iterable[int]] = ..., run_owner: _Optional[_Iterable[int]] = ..., run_giver: _Optional[_Iterable[int]] = ..., run_tokens: _Optional[_Iterable[int]] = ..., run_tokens_rest: _Optional[_Iterable[int]] = ..., known_group_deltas: _Optional[_Iterable[int]] = ..., known_life: _Optional[_Iterable[int]] = ..., known_state: _Optional[_Iterable[int]] = ..., known_heard_ms: _Optional[_Iterable[int]] = ..., run_missed: _Optional[_Iterable[bool]] = ..., known_in_use: _Optional[_Iterable[int]] = ..., known_wanted: _Optional[_Iterable[int]] = ...) -> None: ...
