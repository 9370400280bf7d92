"""How people get in, and what keeps guessing clients from getting in or slowing others: throttle, hashing, devices."""
