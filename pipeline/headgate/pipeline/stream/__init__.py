"""The structured stream: source, batches, steps, and the engine that runs them."""
