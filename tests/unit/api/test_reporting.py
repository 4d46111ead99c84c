"""PIP-82's settings of publishing, as a snapshot carries them."""

from headgate.api.policies.broker import refused_settings, with_reporting

KAFKA = {"kind": "kafka", "bootstrap": "kafka-1:9092", "topic": "headgate-usage"}
FIXED = {"bus": KAFKA, "report": {"interval_s": 1.0, "keyframe_every": 10}}


def test_pip82_the_name_of_the_topic_reaches_the_snapshot_on_kafka() -> None:
    assert refused_settings(KAFKA) == {}
    changed = with_reporting(FIXED, {"resourceUsagePublishTopicName": "usage"})
    assert changed == {**FIXED, "bus": {**KAFKA, "topic": "usage"}}


def test_pip82_interval_and_cycles_leave_each_other_alone() -> None:
    cycles = {"resourceUsageMaxUsageReportSuppressRounds": "3"}
    assert with_reporting(FIXED, cycles)["report"] == {
        "interval_s": 1.0,
        "keyframe_every": 3,
    }
