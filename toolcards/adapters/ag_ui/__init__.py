"""The AG-UI protocol: its events, the interrupts that request approvals, and the resume entries that answer them."""

from toolcards.adapters.ag_ui.events import ADAPTER, DECODER, decode, run_of

__all__ = ["ADAPTER", "DECODER", "decode", "run_of"]
