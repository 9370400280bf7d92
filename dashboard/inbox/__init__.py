"""The inbox: waiting calls, votes, and the history of answers.

`order` sorts the calls, `groups` finds similar ones; `vote_middleware`, `views` and `batch` take votes, `history` lists
answers.
"""
