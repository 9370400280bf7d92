"""The AG-UI protocol: its events, the interrupts that request approvals, and the resume entries that answer them."""

from toolcards.adapters.ag_ui.events import ADAPTER, DECODER, decode, find_run_id

__all__ = ["ADAPTER", "DECODER", "decode", "find_run_id"]
