"""Adapters: decode the frames of each wire protocol into facts, and encode approval answers.

Each names the kinds of frames that teach nothing; all other kinds that it does not know count as unknown frames.

An agent framework is no protocol: its module is toolcards/client/<framework>.py, its recipe in
toolcards/connect/programs/libraries.py.
"""

from toolcards.adapters.acp import ADAPTER as ACP
from toolcards.adapters.ag_ui import ADAPTER as AG_UI
from toolcards.adapters.ai_sdk import ADAPTER as AI_SDK
from toolcards.adapters.base import Adapter, ApprovalAnswer, BadFrame
from toolcards.adapters.claude_code import ADAPTER as CLAUDE_CODE
from toolcards.adapters.native import ADAPTER as NATIVE
from toolcards.adapters.opencode import ADAPTER as OPENCODE
from toolcards.adapters.tanstack import ADAPTER as TANSTACK

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter for adapter in (NATIVE, AI_SDK, AG_UI, TANSTACK, CLAUDE_CODE, OPENCODE, ACP)
}

__all__ = ["ADAPTERS", "Adapter", "ApprovalAnswer", "BadFrame"]
