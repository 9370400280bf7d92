"""Recorded runs, played into a running server in real time.

`runs/*.jsonl` are native: a first line with the run's name, agent, title and how it ends, then one line
per frame with the milliseconds since the one before. A line `{"decision": call}` waits for the gate's answer;
lines with `if` are played only where the latest answer was that one. `runs/*.sse` are the bytes of other
protocols, recorded from the real libraries; tools and texts have the names of a shop.
"""

SOURCE = "demo"  # whose runs are those of the demo
