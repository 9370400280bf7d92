"""The engine: what agents do becomes facts, facts become cards, and the gate decides."""

__version__ = "0.2.0"  # the only place: pyproject.toml, `--version`, /healthz, /metrics and the pages read it here
