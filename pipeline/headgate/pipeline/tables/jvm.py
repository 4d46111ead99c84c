"""Direct access to Spark's JVM, from the driver, and only here."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no hints

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pyspark.sql import Row, SparkSession


def java(session: SparkSession, name: str) -> object:
    """Return a class, a static method or a constant of Java by its full name."""
    found: object = attrgetter(f"_jvm.{name}")(session)
    return found


def hadoop_configuration(session: SparkSession) -> object:
    """Return the settings of Hadoop's file systems, ``spark.hadoop.*``."""
    found: object = attrgetter("sparkContext._jsc.hadoopConfiguration")(session)()
    return found


def execute(session: SparkSession, statement: str) -> list[Row]:
    """Run an SQL statement to its end; return its rows."""
    return session.sql(statement).collect()  # pyright: ignore[reportUnknownMemberType]  # pyspark's own hint


class _Call(Protocol):
    """A method or a constructor of Java."""

    def __call__(self, *arguments: object) -> object: ...


class _Runnable:
    """A ``java.lang.Runnable`` that calls a function of this process."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def run(self) -> None:
        """Call the function; Java calls this."""
        self._action()

    class Java:
        """What Py4J reads to know the interface."""

        implements: ClassVar[list[str]] = ["java.lang.Runnable"]


class _Hooks(Protocol):
    def addShutdownHook(
        self, hook: object, priority: int, timeout: int, unit: object
    ) -> None: ...

    def removeShutdownHook(self, hook: object) -> bool: ...


_BEFORE_SPARK = 1_000
"""Priority of a hook: the higher comes first, and Spark's is 50 at most."""


@contextmanager
def before_exit(
    session: SparkSession, action: Callable[[], None], timeout_s: float
) -> Generator[None]:
    """Let Java call `action` when a signal ends it, and wait before it stops Spark.

    Under spark-submit a signal goes to Java, or to both processes if their whole group
    is ended.

    Args:
        session: Of the JVM.
        action: Called on a thread of its own.
        timeout_s: How long Java waits for it, at most.
    """
    from pyspark import java_gateway

    # By name, because it has no type hints.
    start = attrgetter("ensure_callback_server_started")(java_gateway)
    start(attrgetter("sparkContext._gateway")(session))
    thread = cast("_Call", java(session, "java.lang.Thread"))
    hook = thread(_Runnable(action))  # a thread is a Runnable equal only to itself
    all_hooks = java(session, "org.apache.hadoop.util.ShutdownHookManager.get")
    hooks = cast("_Hooks", cast("_Call", all_hooks)())
    seconds = java(session, "java.util.concurrent.TimeUnit.SECONDS")
    hooks.addShutdownHook(hook, _BEFORE_SPARK, round(timeout_s), seconds)
    try:
        yield
    finally:
        # Java may have gone, or be about to.
        with suppress(Py4JError, ConnectionError):
            hooks.removeShutdownHook(hook)


def quiet_stdout(session: SparkSession) -> None:
    """Keep the JVM from writing to stdout, which belongs to this process."""
    nowhere = cast("_Call", java(session, "java.io.OutputStream.nullOutputStream"))
    stream = cast("_Call", java(session, "java.io.PrintStream"))
    cast("_Call", java(session, "java.lang.System.setOut"))(stream(nowhere()))


def quiet_loss(session: SparkSession) -> None:
    """Keep Spark's own server in this process from printing when Java has gone."""
    server = attrgetter("sparkContext._accumulatorServer")(session)
    server.handle_error = _ignore


def _ignore(*_: object) -> None:
    """Take what is given and do nothing."""
