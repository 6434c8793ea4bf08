"""The loop: poll, decode, step, encode, commit; supervision, shutdown, telemetry."""
