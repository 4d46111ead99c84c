"""Rate policies per topic, as Pulsar has them: topic over namespace over broker."""
