"""The search language of the pages: `agent:codex tool:Bash path:src/tax.py -state:failed since:2h "free text"`."""
