from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Report(_message.Message):
    __slots__ = ("format", "cluster", "agent", "incarnation", "sequence", "sent_at_us", "revision", "hello", "leave", "keyframe", "group_id_deltas", "rows", "grants", "weight", "interval_ms", "checksum", "signature", "part", "parts")
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
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
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
    grants: _containers.RepeatedCompositeFieldContainer[Grants]
    weight: float
    interval_ms: int
    checksum: int
    signature: bytes
    part: int
    parts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, format: _Optional[int] = ..., cluster: _Optional[str] = ..., agent: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., sent_at_us: _Optional[int] = ..., revision: _Optional[int] = ..., hello: _Optional[bool] = ..., leave: _Optional[bool] = ..., keyframe: _Optional[bool] = ..., group_id_deltas: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[_Union[Rows, _Mapping]]] = ..., grants: _Optional[_Iterable[_Union[Grants, _Mapping]]] = ..., weight: _Optional[float] = ..., interval_ms: _Optional[int] = ..., checksum: _Optional[int] = ..., signature: _Optional[bytes] = ..., part: _Optional[int] = ..., parts: _Optional[_Iterable[int]] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("dimension", "counter_scale", "held_scale", "level_scale", "group_id_deltas", "refused", "admitted", "demand", "held", "level", "subjects")
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
    def __init__(self, dimension: _Optional[str] = ..., counter_scale: _Optional[int] = ..., held_scale: _Optional[int] = ..., level_scale: _Optional[int] = ..., group_id_deltas: _Optional[_Iterable[int]] = ..., refused: _Optional[_Iterable[int]] = ..., admitted: _Optional[_Iterable[int]] = ..., demand: _Optional[_Iterable[int]] = ..., held: _Optional[_Iterable[int]] = ..., level: _Optional[_Iterable[int]] = ..., subjects: _Optional[_Iterable[int]] = ...) -> None: ...

class Grants(_message.Message):
    __slots__ = ("dimension", "group_id_deltas", "receivers", "receiver", "given", "tokens")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_DELTAS_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    dimension: str
    group_id_deltas: _containers.RepeatedScalarFieldContainer[int]
    receivers: _containers.RepeatedScalarFieldContainer[str]
    receiver: _containers.RepeatedScalarFieldContainer[int]
    given: _containers.RepeatedScalarFieldContainer[float]
    tokens: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, dimension: _Optional[str] = ..., group_id_deltas: _Optional[_Iterable[int]] = ..., receivers: _Optional[_Iterable[str]] = ..., receiver: _Optional[_Iterable[int]] = ..., given: _Optional[_Iterable[float]] = ..., tokens: _Optional[_Iterable[float]] = ...) -> None: ...
