"""What a run is: its cards, which card a fact is about, and what the end of the run means for them."""
